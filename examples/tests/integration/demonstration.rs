//! The demonstration over sockets against a real Kinesis server.

use std::io::Write as _;
use std::path::PathBuf;

use examples::{Args, Demo, Inventory, Service, StockChange};

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../kinesis_leases_store.rs"]
mod with_macros;

const SERVICE: Service = with_macros::service;

/// A file of so many stock changes.
fn input(lines: u64) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{lines}.jsonl"));
    let mut file = std::fs::File::create(&path).unwrap();
    for n in 0..lines {
        let delta = i64::try_from(n % 9).unwrap() - 4;
        let change = StockChange {
            sku: n % 257,
            delta,
        };
        writeln!(file, "{}", serde_json::to_string(&change).unwrap()).unwrap();
    }
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_20_000_lines_is_handled_through_a_split_and_a_merge_and_a_restart_resumes() {
    let _room = crate::room().await;
    let args = Args {
        endpoint: Some(crate::endpoint("KINESIS_ENDPOINT")),
        input: Some(input(20_000)),
        ..Args::default()
    };
    let demo = Demo::new(args).await.unwrap();
    let report = demo.run(SERVICE).await.unwrap();
    println!("{report}");
    assert_eq!((report.put(), report.handled()), (20_000, 20_000));
    assert_eq!((report.lost(), report.handled_twice()), (0, 0));
    assert_eq!(report.instances(), 2);

    // Nobody reads while these are put; then an instance starts again on the same store.
    let inventory: &Inventory = demo.inventory();
    let changes: Vec<_> = (0..500).map(|sku| StockChange { sku, delta: 1 }).collect();
    inventory.put(&changes, demo.tally()).await.unwrap();
    let again = demo.start("again", SERVICE).await.unwrap();
    demo.until_handled().await;
    again.shutdown().await.unwrap();

    let report = demo.tally().report();
    println!("{report}");
    assert_eq!(report.handled(), 20_500);
    assert_eq!((report.lost(), report.handled_twice()), (0, 0));
}
