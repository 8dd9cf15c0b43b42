//! What an app gives to all of its handlers: the values of `RustStream::with_state`, found by their types.

use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A handle on a value that was given to [`RustStream::with_state`](crate::RustStream::with_state): a parameter of a
/// handler under `#[subscriber(..)]`, after its message.
///
/// Cheap to clone; all handles of an app are on the one value. Where the app has no such value, it does not start.
///
/// ```
/// # #[cfg(feature = "macros")] mod with_macros {
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use rstream::{State, subscriber};
/// # use rstream::broker::{self, BoxFuture, Broker, Connection, InProcess, Reports, Source, Subscription};
/// # #[derive(Debug)] struct Topic(&'static str);
/// # impl Source for Topic { type Broker = Lines; fn name(&self) -> &str { self.0 } }
/// # struct Lines;
/// # impl Broker for Lines {
/// #     fn start(self: Box<Self>, _: Vec<Subscription>, _: Reports) -> BoxFuture<'static, broker::Result<Box<dyn Connection>>> { unimplemented!() }
/// #     fn start_in_process(self: Box<Self>, _: Vec<Subscription>, _: Reports) -> broker::Result<Box<dyn InProcess>> { unimplemented!() }
/// # }
///
/// #[subscriber(Topic("numbers"))]
/// async fn add(number: &u64, sum: State<AtomicU64>) {
///     sum.fetch_add(*number, Ordering::Relaxed);
/// }
/// # }
/// ```
pub struct State<T: ?Sized>(Arc<T>);

impl<T: ?Sized> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("State").field(&&*self.0).finish()
    }
}

/// A state's type, which a handler asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    id: TypeId,
    pub(crate) type_name: &'static str,
}

impl Wanted {
    pub(crate) fn of<T: 'static>() -> Self {
        Self {
            id: TypeId::of::<T>(),
            type_name: type_name::<T>(),
        }
    }
}

/// The states of an app.
#[derive(Default)]
pub(crate) struct States(Vec<(Wanted, Box<dyn Any + Send + Sync>)>);

impl States {
    /// Those of a context that belongs to no app.
    pub(crate) const NONE: &'static Self = &Self(Vec::new());

    pub(crate) fn add<T: Send + Sync + 'static>(&mut self, value: T) {
        // In an `Arc` of its own type, so that to find it asks nothing of the type.
        self.0.push((Wanted::of::<T>(), Box::new(Arc::new(value))));
    }

    /// The name of a type that was added twice.
    pub(crate) fn twice(&self) -> Option<&'static str> {
        let mut all = self.0.iter().enumerate();
        let again = all.find(|(at, (wanted, _))| {
            self.0[..*at]
                .iter()
                .any(|(earlier, _)| earlier.id == wanted.id)
        });
        again.map(|(_, (wanted, _))| wanted.type_name)
    }

    pub(crate) fn has(&self, wanted: Wanted) -> bool {
        self.0.iter().any(|(given, _)| given.id == wanted.id)
    }

    pub(crate) fn get<T: 'static>(&self) -> Option<&T> {
        self.find::<T>().map(|value| &**value)
    }

    pub(crate) fn handle<T: 'static>(&self) -> Option<State<T>> {
        self.find::<T>().map(|value| State(Arc::clone(value)))
    }

    fn find<T: 'static>(&self) -> Option<&Arc<T>> {
        let id = TypeId::of::<T>();
        let (_, value) = self.0.iter().find(|(wanted, _)| wanted.id == id)?;
        value.downcast_ref()
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(wanted, _)| wanted.type_name);
        f.debug_list().entries(names).finish()
    }
}
