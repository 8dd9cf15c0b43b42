//! The listing: one loop per broker that lists the shards of its streams, reads their lease states, and
//! starts or stops readers.
//!
//! What to do is decided by `lineage` and `balance`; this module makes the calls and keeps the readers.

mod namesake;
mod readers;
mod states;
mod stream;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use lease_core::{LeaseError, LeaseKey};
use rstream::broker::Reports;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::namesake::Namesake;
use self::readers::{Readers, ToCoordinator};
use self::states::States;
use self::stream::{Listed, Stream};
use crate::leasing::balance::{Balance, Claim, Shard};
use crate::leasing::keeper::Keeper;
use crate::leasing::{LEASE, LIST_APART, LIST_EVERY, Leases, after};
use crate::reading::assignment::{End, Notice};
use crate::reading::handling::Handling;
use crate::reading::seek::SeekStream;
use crate::service::Service;
use crate::{KinesisError, KinesisStream};

/// How long a listing waits for a slow stream before it goes on with what it knew of it.
const SLOW_STREAM: Duration = Duration::from_secs(1);
/// Without a listing for so long, nobody else may have been able to renew either.
const OUT_OF_TOUCH: Duration = Duration::from_secs(6);
/// Asks, and rows to forget, under way at once.
const CALLS_AT_ONCE: usize = 32;
/// How often a start that takes long says how far it is.
const LONG_START: Duration = Duration::from_secs(5);
/// How long a reader may take to give its lease back once the shutdown's limit has ended its handler.
const LAST_CALLS: Duration = Duration::from_secs(5);

/// What a coordinator works with.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) subscriptions: Vec<(KinesisStream, Arc<Handling>)>,
    pub(crate) service: Service,
    pub(crate) leases: Leases,
    pub(crate) reports: Reports,
    pub(crate) hand_over_timeout: Duration,
    pub(crate) shutdown_timeout: Duration,
    /// The way to ask for moves, and where they come out.
    pub(crate) seeks: (
        mpsc::UnboundedSender<SeekStream>,
        mpsc::UnboundedReceiver<SeekStream>,
    ),
    pub(crate) seed: u64,
}

/// The loop and all that it holds.
pub(crate) struct Coordinator {
    service: Service,
    leases: Leases,
    reports: Reports,
    shutdown_timeout: Duration,
    streams: Vec<Stream>,
    /// The listings of streams that are under way.
    under_way: JoinSet<Listed>,
    states: States,
    balance: Balance,
    readers: Readers,
    notices: mpsc::UnboundedReceiver<Notice>,
    seeks: mpsc::UnboundedReceiver<SeekStream>,
    asked: mpsc::UnboundedReceiver<LeaseKey>,
    /// The shards that ended here and whose children have not been listed since, and when each ended.
    ended: Vec<(LeaseKey, Instant)>,
    namesake: Namesake,
    /// The asks of the last plan.
    asks: Option<AbortOnDropHandle<()>>,
    /// The rows that are being forgotten.
    forgetting: Option<AbortOnDropHandle<()>>,
    /// The rows of which the store has said whether it forgets them.
    done_with: mpsc::UnboundedReceiver<LeaseKey>,
    done_with_sender: mpsc::UnboundedSender<LeaseKey>,
    listed_at: Option<Instant>,
    /// The next listing of the fixed rate.
    regular_at: Instant,
    /// A listing out of turn.
    early_at: Option<Instant>,
    /// When lease states were last read.
    in_touch_at: Instant,
    /// From when on expired leases are taken.
    takes_over_from: Instant,
    starting: Option<Starting>,
}

/// The start, until every shard that the first listing took had its first try to open.
struct Starting {
    started: oneshot::Sender<()>,
    /// The shards that have not had it.
    waits_for: HashSet<LeaseKey>,
    taken: usize,
    since: Instant,
    /// When to say how far it is.
    tell_at: Instant,
}

impl Starting {
    fn new(started: oneshot::Sender<()>) -> Self {
        let now = Instant::now();
        Self {
            started,
            waits_for: HashSet::new(),
            taken: 0,
            since: now,
            tell_at: now + LONG_START,
        }
    }

    fn tell(&mut self) {
        let (opened, taken) = (self.taken - self.waits_for.len(), self.taken);
        tracing::info!(opened, taken, since = ?self.since.elapsed(), "starting: shards are being opened");
        self.tell_at = Instant::now() + LONG_START;
    }
}

impl Coordinator {
    /// Sets everything up. `started` is told once every stream has had its first listing and every shard
    /// taken by it its first try to open, whether these succeeded or failed.
    pub(crate) fn new(setup: Setup, started: oneshot::Sender<()>) -> Self {
        let mut rng = fastrand::Rng::with_seed(setup.seed);
        let (asked_sender, asked) = mpsc::unbounded_channel();
        let (notice_sender, notices) = mpsc::unbounded_channel();
        let (done_with_sender, done_with) = mpsc::unbounded_channel();
        let keeper = Keeper::start(
            setup.leases.clone(),
            setup.reports.clone(),
            asked_sender,
            rng.u64(..),
        );
        let now = Instant::now();
        Self {
            balance: Balance::new(setup.leases.owner()),
            readers: Readers::new(
                setup.service.clone(),
                setup.leases.clone(),
                Arc::new(keeper),
                setup.reports.clone(),
                ToCoordinator {
                    notices: notice_sender,
                    seeks: setup.seeks.0,
                },
                setup.hand_over_timeout,
                rng,
            ),
            service: setup.service,
            leases: setup.leases,
            reports: setup.reports,
            shutdown_timeout: setup.shutdown_timeout,
            streams: setup
                .subscriptions
                .into_iter()
                .map(|(stream, handling)| Stream::new(&stream, handling))
                .collect(),
            under_way: JoinSet::new(),
            states: States::default(),
            notices,
            seeks: setup.seeks.1,
            asked,
            ended: Vec::new(),
            namesake: Namesake::default(),
            asks: None,
            forgetting: None,
            done_with,
            done_with_sender,
            listed_at: None,
            regular_at: now,
            early_at: None,
            in_touch_at: now,
            takes_over_from: now,
            starting: Some(Starting::new(started)),
        }
    }

    /// Runs until `stop`, then shuts down: settles, writes and releases what it holds.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            let listing_at = self
                .early_at
                .unwrap_or(self.regular_at)
                .min(self.regular_at);
            let tell_at = self.starting.as_ref().map(|starting| starting.tell_at);
            let wake_at = [self.readers.next_decline(), tell_at]
                .into_iter()
                .flatten()
                .fold(listing_at, Instant::min);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(notice) = self.notices.recv() => self.hear(notice),
                Some(key) = self.asked.recv() => {
                    tracing::debug!(%key, "asked for");
                    self.list_soon();
                }
                Some(seek) = self.seeks.recv() => self.seek(seek),
                Some(key) = self.done_with.recv() => {
                    let mut streams = self.streams.iter_mut();
                    if let Some(stream) = streams.find(|stream| stream.has(&key)) {
                        stream.done_with(key.shard());
                    }
                }
                Some((key, end)) = self.readers.ended() => self.ended(&key, end),
                Some(listed) = self.under_way.join_next() => {
                    if let Some(stream) = self.listed(listed) {
                        stream.came_late();
                    }
                    self.list_soon();
                }
                () = sleep_until(wake_at) => {
                    self.readers.decline_overdue();
                    if let Some(starting) = &mut self.starting
                        && starting.tell_at <= Instant::now()
                    {
                        starting.tell();
                    }
                    if Instant::now() >= listing_at {
                        tokio::select! {
                            biased;
                            () = stop.cancelled() => break,
                            () = self.list() => {}
                        }
                    }
                }
            }
        }
        self.shut_down().await;
    }

    fn hear(&mut self, notice: Notice) {
        match notice {
            Notice::Opened(key) => self.opened(&key),
            Notice::Lost(key) => {
                self.readers.lost(&key);
                self.list_soon();
            }
        }
    }

    fn seek(
        &mut self,
        SeekStream {
            stream,
            shards,
            to,
            moves,
        }: SeekStream,
    ) {
        let Some(stream) = self.streams.iter().find(|known| known.name == stream) else {
            return;
        };
        let moving = self.readers.seek(stream, &shards, to);
        if let Some(moves) = moves {
            // Whoever asked may have given up waiting.
            let _ = moves.send(moving);
        }
    }

    fn ended(&mut self, key: &LeaseKey, end: Option<End>) {
        let (stream, shard) = (KinesisStream::of_leases(key.stream()), key.shard());
        self.opened(key);
        match end {
            Some(End::NotTaken) => tracing::debug!(stream, shard, "not taken"),
            Some(End::Released) => tracing::info!(stream, shard, "given back"),
            Some(End::Finished) => {
                tracing::info!(stream, shard, "read to its end");
                self.ended.push((key.clone(), Instant::now()));
            }
            Some(End::Lost) => tracing::warn!(stream, shard, "lost to another instance"),
            Some(End::Gone | End::Unsettled) => {}
            None => self.reports.report(&KinesisError::Panicked {
                stream: stream.to_owned(),
                shard: shard.to_owned(),
            }),
        }
        if matches!(end, Some(End::Finished | End::Lost | End::Gone)) {
            self.list_soon();
        }
        if end == Some(End::Unsettled) {
            self.reports.report(&KinesisError::Unsettled {
                stream: stream.to_owned(),
                shard: shard.to_owned(),
                limit: self.shutdown_timeout,
            });
        }
    }

    fn opened(&mut self, key: &LeaseKey) {
        if let Some(starting) = &mut self.starting {
            starting.waits_for.remove(key);
        }
        self.started();
    }

    /// Says so once the first listing is done and everything that it took is open.
    fn started(&mut self) {
        if self.streams.iter().all(Stream::had_its_turn)
            && let Some(starting) = self
                .starting
                .take_if(|starting| starting.waits_for.is_empty())
        {
            if starting.since.elapsed() > LONG_START {
                let Starting { taken, since, .. } = starting;
                tracing::info!(taken, since = ?since.elapsed(), "started");
            }
            // Whoever started the broker may have given up on it.
            let _ = starting.started.send(());
        }
    }

    /// Asks for a listing out of turn, not too close to the last one.
    fn list_soon(&mut self) {
        let now = Instant::now();
        let apart = self.listed_at.map_or(now, |at| at + LIST_APART);
        self.list_by(now.max(apart));
    }

    fn list_by(&mut self, at: Instant) {
        self.early_at = Some(self.early_at.map_or(at, |early| early.min(at)));
    }

    /// One listing: shards first, lease states after, then what follows from them.
    ///
    /// Cancelled, it may have started some of the readers that it was to start.
    async fn list(&mut self) {
        let started = Instant::now();
        if started >= self.regular_at {
            // A fixed rate, whatever a listing takes; what a blocked runtime missed is not made up for.
            let missed = (started - self.regular_at).as_nanos() / LIST_EVERY.as_nanos();
            let periods = u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1);
            self.regular_at += LIST_EVERY * periods;
        }
        self.early_at = None;
        self.listed_at = Some(started);
        self.list_shards().await;
        if self.read_leases().await {
            self.act();
        }
        for stream in &mut self.streams {
            stream.end_turn();
        }
        self.started();
    }

    /// Lists every stream at once; one that is slow or fails keeps its last known shards.
    async fn list_shards(&mut self) {
        for (index, stream) in self.streams.iter_mut().enumerate() {
            if let Some(listing) = stream.list(index, &self.service) {
                self.under_way.spawn(listing);
            }
        }
        let patience = Instant::now() + SLOW_STREAM;
        while let Ok(Some(listed)) = timeout_at(patience, self.under_way.join_next()).await {
            self.listed(listed);
        }
    }

    /// Takes in what came of a listing; gives its stream.
    fn listed(&mut self, listed: Result<Listed, JoinError>) -> Option<&mut Stream> {
        match listed {
            Ok(listed) => {
                let stream = &mut self.streams[listed.index];
                stream.listed(listed, &self.reports);
                Some(stream)
            }
            // Nothing cancels a listing but the end of all, and one that panics says so by itself.
            Err(error) => {
                tracing::error!(%error, "a listing ended early");
                None
            }
        }
    }

    /// Reads the lease states of all listed shards; whether any answer came.
    async fn read_leases(&mut self) -> bool {
        let keys: Vec<LeaseKey> = self.streams.iter().flat_map(Stream::keys).collect();
        let (leases, reports) = (&self.leases, &self.reports);
        let states = self.states.read(leases, reports, &keys).await;
        let now = Instant::now();
        if states.is_empty() && !keys.is_empty() {
            return false;
        }
        if now - self.in_touch_at > OUT_OF_TOUCH {
            self.takes_over_from = now + LEASE;
        }
        self.in_touch_at = now;
        let mut states = states.into_iter().peekable();
        for stream in &mut self.streams {
            let mine = std::iter::from_fn(|| states.next_if(|(key, _)| stream.has(key)));
            stream.states = mine
                .map(|(key, state)| (Arc::clone(key.shared_shard()), state))
                .collect();
        }
        true
    }

    fn act(&mut self) {
        let now = Instant::now();
        for stream in &mut self.streams {
            stream.draw_lineage();
        }
        let takes_over = now >= self.takes_over_from;
        let mut shards = Vec::new();
        for stream in &self.streams {
            stream.shards(&self.readers, takes_over, &mut shards);
        }
        let mut plan = self.balance.decide(now, &shards);
        self.namesake.look_for(self.leases.owner(), now, &shards);
        let heirs = take_heirs(&mut self.ended, now, &self.streams, &shards);
        plan.take.extend(heirs);
        drop(shards);

        for key in plan.take {
            let Some(stream) = self.streams.iter().find(|stream| stream.has(&key)) else {
                continue;
            };
            if let Some(starting) = &mut self.starting {
                starting.waits_for.insert(key.clone());
                starting.taken += 1;
            }
            self.readers.start(key, stream);
        }
        for hand_over in plan.hand_over {
            self.readers.hand_over(&hand_over.key, hand_over.to);
        }
        self.ask(plan.ask);
        self.forget();

        if let Some(soon) = plan.look_again_in {
            self.list_by(now + soon.max(LIST_APART));
        }
        let expires_in = self.streams.iter().flat_map(Stream::expiries).min();
        if let Some(expires_in) = expires_in {
            self.list_by((now + expires_in).max(now + LIST_APART));
        }
    }

    /// Makes the asks of a plan, unless those of the last one are still under way.
    fn ask(&mut self, keys: Vec<LeaseKey>) {
        let leases = self.leases.clone();
        for_each_key(&mut self.asks, &self.reports, keys, move |key| {
            let leases = leases.clone();
            async move { leases.ask(&key).await.map(drop) }
        });
    }

    /// Clears away the rows that nobody needs any more; those of the last listing first.
    fn forget(&mut self) {
        let keys = self
            .streams
            .iter_mut()
            .flat_map(Stream::forgettable)
            .collect();
        let (leases, done_with) = (self.leases.clone(), self.done_with_sender.clone());
        for_each_key(&mut self.forgetting, &self.reports, keys, move |key| {
            let (leases, done_with) = (leases.clone(), done_with.clone());
            async move {
                let is_gone = leases.forget(&key).await?;
                tracing::debug!(%key, is_gone, "asked the store to forget a finished shard");
                // A coordinator that is gone forgets everything.
                let _ = done_with.send(key);
                Ok(())
            }
        });
    }

    async fn shut_down(mut self) {
        self.asks = None;
        self.forgetting = None;
        self.under_way.abort_all();
        self.readers.stop_all();
        let limit = after(self.shutdown_timeout);
        while let Ok(Some((key, end))) = timeout_at(limit, self.readers.ended()).await {
            self.ended(&key, end);
        }
        if self.readers.is_empty() {
            return;
        }
        self.readers.reach_limit();
        let last = Instant::now() + LAST_CALLS;
        while let Ok(Some((key, end))) = timeout_at(last, self.readers.ended()).await {
            self.ended(&key, end);
        }
    }
}

/// The children of the shards that ended here, where nobody has them yet: this instance reads on at once,
/// whomever they would fall to at a later listing. The balance is struck afterwards.
fn take_heirs(
    ended: &mut Vec<(LeaseKey, Instant)>,
    now: Instant,
    streams: &[Stream],
    shards: &[Shard<'_>],
) -> Vec<LeaseKey> {
    let mut heirs = Vec::new();
    ended.retain(|(parent, at)| {
        let stream = streams.iter().find(|stream| stream.has(parent));
        let lineage = stream.and_then(|stream| stream.lineage.as_ref());
        let Some(lineage) = lineage else { return false };
        let mut children = lineage.listing().children_of(parent.shard()).peekable();
        let is_listed = children.peek().is_some();
        for child in children {
            let is_free = |shard: &&Shard<'_>| {
                *shard.key.shard() == *child.id
                    && shard.key.stream() == parent.stream()
                    && shard.claim == Claim::Free { takeable: true }
            };
            heirs.extend(shards.iter().find(is_free).map(|shard| shard.key.clone()));
        }
        !is_listed && now < *at + LEASE
    });
    heirs
}

/// Makes a call for each key in a task of its own, unless the task of an earlier listing is still at it:
/// what is left out now comes again with the next listing.
fn for_each_key<C>(
    task: &mut Option<AbortOnDropHandle<()>>,
    reports: &Reports,
    keys: Vec<LeaseKey>,
    call: impl Fn(LeaseKey) -> C + Send + Sync + 'static,
) where
    C: Future<Output = Result<(), LeaseError>> + Send + 'static,
{
    if keys.is_empty() || task.as_ref().is_some_and(|task| !task.is_finished()) {
        return;
    }
    let reports = reports.clone();
    let calls = async move {
        let calls = futures_util::stream::iter(keys).map(|key| {
            let called = call(key.clone());
            async move { (key, called.await) }
        });
        let mut answers = calls.buffer_unordered(CALLS_AT_ONCE);
        while let Some((key, answer)) = answers.next().await {
            if let Err(source) = answer {
                reports.report(&KinesisError::lease(&key, source));
            }
        }
    };
    *task = Some(AbortOnDropHandle::new(tokio::spawn(calls)));
}
