//! What a handler can send to: values are encoded at once, and kept until the handler has settled its message.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use crate::error::BoxError;
use crate::reply::{Reply, SendError};
use crate::{Codec, Outgoing};

/// The replies of one delivery.
pub(crate) type Sink = Arc<Mutex<Vec<Reply>>>;

type Encode<T> = dyn Fn(&T) -> Result<Vec<u8>, BoxError> + Send + Sync;

/// A typed output of a handler: what it [`send`](Self::send)s is published there, and the message is settled once it is
/// stored.
///
/// What is sent belongs to one delivery. It is published where the handler settles its message (by `Ok`,
/// [`ack`](crate::HandlerOutcome::ack), [`ack_until`](crate::HandlerOutcome::ack_until) more than nothing, or
/// [`drop`](crate::HandlerOutcome::drop)), and thrown away on any other outcome and on a panic. With `ack_until` all of it is
/// published, so send for what you settle alone.
///
/// ```
/// use rstream::{Context, Handle, HandlerOutcome, Out, Outgoing, subscriber};
/// # use rstream::broker::{self, BoxFuture, Broker, Connection, InProcess, Reports, Source, Subscription};
/// # #[derive(Debug)] struct Topic(&'static str);
/// # impl Source for Topic { type Broker = Lines; fn name(&self) -> &str { self.0 } }
/// # struct Lines;
/// # impl Broker for Lines {
/// #     fn start(self: Box<Self>, _: Vec<Subscription>, _: Reports) -> BoxFuture<'static, broker::Result<Box<dyn Connection>>> { unimplemented!() }
/// #     fn start_in_process(self: Box<Self>, _: Vec<Subscription>, _: Reports) -> broker::Result<Box<dyn InProcess>> { unimplemented!() }
/// # }
/// use serde::Serialize;
///
/// #[derive(Serialize)]
/// struct Receipt { sku: u64 }
///
/// impl Outgoing for Receipt {
///     fn partition_key(&self) -> std::borrow::Cow<'_, str> {
///         self.sku.to_string().into()
///     }
/// }
///
/// struct Apply;
///
/// impl Handle<u64, (), (Out<Receipt>, Out<String>)> for Apply {
///     async fn handle(
///         &self,
///         sku: &u64,
///         (receipts, audit): &(Out<Receipt>, Out<String>),
///         _: &mut Context<'_>,
///     ) -> Result<(), HandlerOutcome> {
///         receipts.send(&Receipt { sku: *sku })?;
///         audit.send_keyed("audit", &format!("sold {sku}"))?;
///         Ok(())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let outs = (Out::to("receipts"), Out::to("audit"));
/// let subscription = subscriber(Topic("sales"), Apply).outs(outs).build();
///
/// let delivered = subscription.handler().deliver(&"7".into(), 1, &()).await;
/// assert_eq!(delivered.replies[0].payload, r#"{"sku":7}"#);
/// assert_eq!(&*delivered.replies[1].to, "audit");
/// # }
/// ```
pub struct Out<T> {
    to: Arc<str>,
    encode: Option<Arc<Encode<T>>>,
    sink: Option<Sink>,
}

impl<T: Serialize + 'static> Out<T> {
    /// An output to `destination`; for a stream, the stream's name. Give it to
    /// [`SubscriberBuilder::outs`](crate::SubscriberBuilder::outs).
    #[must_use]
    pub fn to(destination: impl Into<String>) -> Self {
        Self {
            to: destination.into().into(),
            encode: None,
            sink: None,
        }
    }

    /// Sends `value`, by its own partition key.
    ///
    /// # Errors
    ///
    /// Where the subscription's codec cannot write it.
    ///
    /// # Panics
    ///
    /// Outside of a delivery: this is an output that a handler is given.
    pub fn send(&self, value: &T) -> Result<(), SendError>
    where
        T: Outgoing,
    {
        self.send_keyed(value.partition_key(), value)
    }

    /// Sends `value` by `partition_key`.
    ///
    /// # Errors
    ///
    /// Where the subscription's codec cannot write it.
    ///
    /// # Panics
    ///
    /// Outside of a delivery: this is an output that a handler is given.
    pub fn send_keyed(&self, partition_key: impl Into<String>, value: &T) -> Result<(), SendError> {
        let (Some(encode), Some(sink)) = (&self.encode, &self.sink) else {
            panic!("an output to {:?} is used outside of a delivery", self.to);
        };
        let reply = Reply::new(&self.to, partition_key, value, |value| encode(value))?;
        lock(sink).push(reply);
        Ok(())
    }
}

impl<T> fmt::Debug for Out<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Out").field(&self.to).finish()
    }
}

fn lock(sink: &Sink) -> std::sync::MutexGuard<'_, Vec<Reply>> {
    sink.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What has been sent, which is taken.
pub(crate) fn sent(sink: Option<&Sink>) -> Vec<Reply> {
    sink.map(|sink| std::mem::take(&mut *lock(sink)))
        .unwrap_or_default()
}

/// The outputs of a handler: `()`, an [`Out`], or up to four in a tuple.
///
/// Nothing else can implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no outputs of a handler",
    label = "not an `Out<T>`, nor a tuple of them",
    note = "write `.outs(Out::<T>::to(\"stream\"))`, or `.outs((Out::<A>::to(..), Out::<B>::to(..)))`, with up to four"
)]
pub trait Outs: sealed::Sealed + Send + Sync + 'static {
    /// Whether there is anything to send to.
    #[doc(hidden)]
    const ANY: bool;

    #[doc(hidden)]
    fn destinations(&self) -> Vec<String>;

    /// From now on values are written by `codec`.
    #[doc(hidden)]
    fn encode_by<C: Codec>(&mut self, codec: &Arc<C>);

    /// The same outputs, for one delivery.
    #[doc(hidden)]
    fn open(&self, sink: Option<&sealed::Opened>) -> Self;
}

pub(crate) mod sealed {
    pub trait Sealed {}

    impl Sealed for () {}
    impl<T> Sealed for super::Out<T> {}

    /// What the outputs of one delivery share.
    #[derive(Clone, Debug, Default)]
    pub struct Opened(pub(crate) super::Sink);
}

impl Outs for () {
    const ANY: bool = false;

    fn destinations(&self) -> Vec<String> {
        Vec::new()
    }

    fn encode_by<C: Codec>(&mut self, _: &Arc<C>) {}

    fn open(&self, _: Option<&sealed::Opened>) {}
}

impl<T: Serialize + 'static> Outs for Out<T> {
    const ANY: bool = true;

    fn destinations(&self) -> Vec<String> {
        vec![self.to.to_string()]
    }

    fn encode_by<C: Codec>(&mut self, codec: &Arc<C>) {
        let codec = Arc::clone(codec);
        self.encode = Some(Arc::new(move |value| codec.encode(value)));
    }

    fn open(&self, sink: Option<&sealed::Opened>) -> Self {
        Self {
            to: Arc::clone(&self.to),
            encode: self.encode.clone(),
            sink: sink.map(|sealed::Opened(sink)| Arc::clone(sink)),
        }
    }
}

macro_rules! tuples {
    ($(($($out:ident $at:tt),+))+) => {$(
        impl<$($out: Outs),+> sealed::Sealed for ($($out,)+) {}

        impl<$($out: Outs),+> Outs for ($($out,)+) {
            const ANY: bool = $($out::ANY)||+;

            fn destinations(&self) -> Vec<String> {
                [$(self.$at.destinations()),+].concat()
            }

            fn encode_by<Codec_: Codec>(&mut self, codec: &Arc<Codec_>) {
                $(self.$at.encode_by(codec);)+
            }

            fn open(&self, sink: Option<&sealed::Opened>) -> Self {
                ($(self.$at.open(sink),)+)
            }
        }
    )+};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
}
