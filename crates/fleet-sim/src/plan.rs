//! What is to happen in a run: a schedule drawn from one seed, as plain data. Nothing here runs anything.
//!
//! A mishap names its victim by a number that is taken modulo whatever there is to choose from when it comes
//! due, so that a schedule stays meaningful when mishaps are taken out of it.

pub(crate) mod draw;

use std::fmt;
use std::time::Duration;

/// A run before it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What it was drawn from, and what everything that chance decides during the run is drawn from.
    pub seed: u64,
    /// The shards that the stream has at first.
    pub shards: usize,
    /// Where a shard without a checkpoint opens.
    pub start: Start,
    /// The instances that start the run.
    pub instances: usize,
    /// How far an instance's monotonic clock may be off, in parts per million either way.
    pub drift_ppm: u32,
    /// What the producer puts.
    pub producer: Producer,
    /// How handlers behave.
    pub handlers: Handlers,
    /// How all instances read.
    pub reading: Reading,
    /// Of a thousand calls of the store, how many meet with trouble at any time while the mishaps last.
    pub store_noise: u32,
    /// Of a thousand calls of Kinesis, how many meet with trouble at any time while the mishaps last.
    pub kinesis_noise: u32,
    /// What goes wrong, in the order of time.
    pub mishaps: Vec<Mishap>,
    /// How long records are put and mishaps come; then all is healed, and the fleet has to come to rest.
    pub lasts: Duration,
}

/// Where a shard without a checkpoint opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At its oldest record.
    TrimHorizon,
    /// At its tip.
    Latest,
}

/// What is put into the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    /// Over so many partition keys.
    pub keys: usize,
    /// So many records in a second.
    pub per_second: u32,
}

/// How handlers behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handlers {
    /// The longest that a usual delivery takes.
    pub usual: Duration,
    /// Of a thousand deliveries, how many take up to `slow`.
    pub slow_in_1000: u32,
    /// The longest that a slow delivery takes.
    pub slow: Duration,
    /// Of a thousand first deliveries, how many end in a retry, a panic or a drop.
    pub unhappy_in_1000: u32,
}

/// How an instance reads a shard. The default is the product's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// How many records of it may be in handlers at once.
    pub concurrency: usize,
    /// The least time between two of its checkpoints; where there is none, each acknowledgement is written.
    pub interval: Option<Duration>,
    /// How many of its records may be read ahead before it is read again; where it is not said, as many as the
    /// product thinks right, which no run comes near.
    pub prefetch: Option<usize>,
}

impl Reading {
    /// Whether each acknowledgement is in the store before the next record of the shard is handed over.
    #[must_use]
    pub fn awaits_each(&self) -> bool {
        self.concurrency == 1 && self.interval.is_none()
    }
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            concurrency: 1,
            interval: None,
            prefetch: None,
        }
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            concurrency,
            interval,
            prefetch,
        } = self;
        write!(f, "{concurrency} of a shard in handlers at once, ")?;
        match interval {
            None => write!(f, "each acknowledgement written, ")?,
            Some(interval) => write!(f, "checkpoints {interval:?} apart, ")?,
        }
        match prefetch {
            None => write!(f, "as much read ahead as usual"),
            Some(0) => write!(f, "nothing read ahead"),
            Some(records) => write!(f, "{records} read ahead"),
        }
    }
}

/// Something that goes wrong, or is done to the fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct Mishap {
    /// When.
    pub at: Duration,
    /// What.
    pub what: What,
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// An instance joins; in the name of one that was killed, where there is one and `reuses_name` is set.
    Join {
        /// Whether it takes the name of one that was killed.
        reuses_name: bool,
    },
    /// An instance is killed.
    Kill {
        /// Which.
        victim: usize,
    },
    /// An instance is told to stop.
    Stop {
        /// Which.
        victim: usize,
    },
    /// An instance stands still for a while.
    Pause {
        /// Which.
        victim: usize,
        /// How long.
        lasts: Duration,
    },
    /// The wall clock of an instance jumps.
    WallClock {
        /// Whose.
        victim: usize,
        /// By so many seconds.
        seconds: i64,
    },
    /// A shard is split in the middle.
    Split {
        /// Which of the open ones.
        shard: usize,
    },
    /// Two adjacent shards are merged.
    Merge {
        /// The first of which of the adjacent pairs.
        shard: usize,
    },
    /// Retention passes: whatever is older is no longer stored, in any shard, and a shard that closed before is no
    /// longer listed.
    Trim {
        /// Older than this.
        age: Duration,
    },
    /// The store meets trouble.
    Store {
        /// What kind.
        trouble: Trouble,
        /// Of one instance; of all, where there is none.
        victim: Option<usize>,
        /// How long.
        lasts: Duration,
    },
    /// Kinesis meets trouble.
    Kinesis {
        /// What kind.
        trouble: KinesisTrouble,
        /// How long.
        lasts: Duration,
    },
    /// Every iterator expires.
    ExpireIterators,
}

/// What goes wrong with every call of the store while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It fails, and changes nothing.
    Fails,
    /// It is throttled, and changes nothing.
    Throttles,
    /// It takes effect, and its answer is lost.
    LosesAnswer,
    /// It takes effect twice, as where the network repeats it; the second answer arrives.
    Repeats,
    /// It never arrives, and is never answered.
    Hangs,
    /// It takes effect after so long, whether somebody still waits for it or not.
    Late(Duration),
    /// It takes effect at once, and is answered after so long.
    AnswersLate(Duration),
}

/// What goes wrong with calls of Kinesis while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KinesisTrouble {
    /// Half of the reads and of the listings are throttled.
    Throttles,
    /// Half of all calls fail with status 500 or 503.
    Fails,
    /// All connections are reset.
    Outage,
    /// A tenth of all calls is never answered.
    Hangs,
    /// Answers come up to so much later.
    Slow(Duration),
    /// Half of the puts store only a part of their records.
    PartialPuts,
    /// A fifth of all calls takes effect and loses its answer.
    LosesAnswers,
}

impl Plan {
    /// Draws a plan from a seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        draw::plan(seed)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: {} instances, {} shards read from {:?}, {} records a second over {} keys for {:?}, clocks off by up to {} ppm, noise {}‰ of store calls and {}‰ of Kinesis calls, handlers up to {:?}, {}‰ up to {:?}, {}‰ unhappy; {}",
            self.seed,
            self.instances,
            self.shards,
            self.start,
            self.producer.per_second,
            self.producer.keys,
            self.lasts,
            self.drift_ppm,
            self.store_noise,
            self.kinesis_noise,
            self.handlers.usual,
            self.handlers.slow_in_1000,
            self.handlers.slow,
            self.handlers.unhappy_in_1000,
            self.reading,
        )?;
        for Mishap { at, what } in &self.mishaps {
            writeln!(f, "  {:>8.3} s  {what:?}", at.as_secs_f64())?;
        }
        Ok(())
    }
}
