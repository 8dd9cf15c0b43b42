//! What a story tells, and what a history's text holds.

use std::time::Duration;

use lease_core::{Checkpoint, Holder};
use rstream::HandlerOutcome;

use super::*;
use crate::history::{
    Answer, Ask, CallId, Delivery, DeliveryId, Event, InstanceId, Record, Sequence, Shard,
};

fn key(shard: &str) -> LeaseKey {
    LeaseKey::new("inventory", shard)
}

/// An instance that reads one record of shard 3, and fails to give the shard back; beside it, another shard.
fn history() -> History {
    let three = key("shardId-000000000003");
    let (i0, holder) = (
        InstanceId(0),
        Holder {
            owner: "i0".to_owned(),
            epoch: 1,
        },
    );
    let sequence = Sequence("49".to_owned());
    let (acquire, renew, checkpoint, release, other) =
        (CallId(1), CallId(2), CallId(3), CallId(4), CallId(5));
    let sent = |call, ask| Event::Sent {
        call,
        instance: i0,
        ask,
    };
    let owner = || "i0".to_owned();
    let events = vec![
        Event::Joined {
            instance: i0,
            owner: owner(),
        },
        sent(
            acquire,
            Ask::Acquire {
                key: three.clone(),
                owner: owner(),
            },
        ),
        Event::Took {
            call: acquire,
            answer: Answer::Granted(holder.clone()),
        },
        Event::Answered {
            call: acquire,
            answer: Answer::Granted(holder.clone()),
        },
        sent(
            other,
            Ask::Acquire {
                key: key("other"),
                owner: owner(),
            },
        ),
        Event::Took {
            call: other,
            answer: Answer::No,
        },
        Event::Fetched {
            instance: i0,
            sent: Duration::from_secs(5),
            records: vec![sequence.clone()],
        },
        Event::Handed(Delivery {
            id: DeliveryId(1),
            instance: i0,
            key: three.clone(),
            epoch: 1,
            sequence: sequence.clone(),
            partition_key: "k7".to_owned(),
            attempt: 2,
        }),
        Event::Handed(Delivery {
            id: DeliveryId(2),
            instance: i0,
            key: three.clone(),
            epoch: 1,
            sequence: Sequence("50".to_owned()),
            partition_key: "k8".to_owned(),
            attempt: 1,
        }),
        sent(
            renew,
            Ask::Renew {
                key: three.clone(),
                holder: holder.clone(),
            },
        ),
        Event::Took {
            call: renew,
            answer: Answer::Yes,
        },
        Event::Said {
            delivery: DeliveryId(1),
            outcome: Some(HandlerOutcome::ack()),
        },
        sent(
            checkpoint,
            Ask::Checkpoint {
                key: three.clone(),
                holder: holder.clone(),
                at: Checkpoint::at("49"),
            },
        ),
        Event::Took {
            call: checkpoint,
            answer: Answer::Yes,
        },
        Event::Fault("the store is slow".to_owned()),
        sent(
            release,
            Ask::Release {
                key: three.clone(),
                holder,
            },
        ),
        Event::Answered {
            call: release,
            answer: Answer::Failed("too late".to_owned()),
        },
        Event::Killed(i0),
    ];
    let timed = events.into_iter().enumerate();
    History {
        events: timed
            .map(|(second, event)| (Duration::from_secs(second as u64), event))
            .collect(),
        records: vec![Record {
            key: three.clone(),
            sequence,
            partition_key: "k7".to_owned(),
            at: Duration::from_millis(5_500),
        }],
        shards: vec![Shard {
            key: three.clone(),
            parents: Vec::new(),
            open: true,
        }],
        left_held: vec![three],
    }
}

#[test]
fn a_story_says_who_held_what_when_and_leaves_out_what_succeeds_by_itself() {
    let story = Story::of(&history()).to_string();
    let lines: Vec<_> = story.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "    0.000 s  i0              joins, as i0",
            "    2.000 s  i0   shard 3    is granted it, epoch 1; rows: i0 3",
            "    5.000 s  i0   shard other is refused it",
            "    6.000 s  i0   shard 3    reads r0",
            "    7.000 s  i0   shard 3    r0 of key k7, epoch 1, attempt 2 ...",
            "    8.000 s  i0   shard 3    50 of key k8, epoch 1, beside 1 in hand, whose handler never ends",
            "   11.000 s  i0   shard 3    ... r0: ack, after 4.000 s",
            "   13.000 s  i0   shard 3    checkpoint r0, epoch 1 (and never hears of it)",
            "   14.000 s                  TROUBLE  the store is slow",
            "   16.000 s  i0   shard 3    failed to release epoch 1: too late",
            "   17.000 s  i0              is killed; rows: i0 3",
        ]
    );
}

#[test]
fn a_story_of_one_shard_tells_of_it_and_of_what_befell_all() {
    for shard in ["3", "shardId-000000000003"] {
        let story = Story::of(&history()).of_shard(shard).to_string();
        assert!(
            !story.contains("other") && story.contains("joins") && story.contains("r0"),
            "{story}"
        );
    }
}

#[test]
fn the_text_of_a_history_has_everything_in_it_a_line_each() {
    let text = history().to_string();
    assert_eq!(text.lines().count(), 18 + 1 + 1 + 1);
    assert!(
        text.starts_with("0.000000000 Joined { instance: InstanceId(0), owner: \"i0\" }\n"),
        "{text}"
    );
    assert!(
        text.ends_with("left held: inventory:shardId-000000000003\n"),
        "{text}"
    );
}
