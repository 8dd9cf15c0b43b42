//! The pure decisions, and the way of one record to its handler: `cargo bench -p bench`.

use std::hint::black_box;

use bench::deliveries::Deliveries;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kinesis_broker::benching;

fn watermark(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("watermark");
    group.throughput(Throughput::Elements(1));
    for in_flight in [1, 16, 10_000] {
        group.bench_function(format!("hand out and settle, {in_flight} in flight"), |b| {
            let mut settle = benching::watermark(in_flight);
            b.iter(|| black_box(settle()));
        });
    }
}

fn lineage(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lineage");
    group.bench_function("take in a listing of 5,000 shards", |b| {
        let mut list = benching::listing(5_000);
        b.iter(|| black_box(list()));
    });
    group.bench_function("standings of 5,000 shards", |b| {
        let mut draw = benching::lineage(5_000);
        b.iter(|| black_box(draw()));
    });
}

fn balance(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("balance");
    for instances in [10, 100] {
        group.bench_function(format!("5,000 shards, {instances} instances"), |b| {
            let mut decide = benching::balance(5_000, instances, false);
            b.iter(|| black_box(decide()));
        });
    }
    group.bench_function("5,000 shards, 100 instances, one more joins", |b| {
        let mut decide = benching::balance(5_000, 100, true);
        b.iter(|| black_box(decide()));
    });
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    for size in [100, 1_024, 10_240] {
        let deliveries = Deliveries::of(size).expect("a handler is at hand");
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(format!("{size} B of JSON, decoded alone"), |b| {
            b.iter(|| black_box(deliveries.decode()));
        });
        group.bench_function(format!("{size} B of JSON, delivered to a handler"), |b| {
            b.iter(|| black_box(deliveries.deliver()));
        });
    }
}

criterion_group!(benches, watermark, lineage, balance, decode);
criterion_main!(benches);
