//! What a value to be published says of itself.

use std::borrow::Cow;

/// A value that knows its partition key: what has one key stays in order.
///
/// Derive it from a field whose type is `Display`, by its name (of a tuple, by its number), or implement it for a key
/// that is made of more:
///
/// ```
/// use std::borrow::Cow;
///
/// use rstream::Outgoing;
///
/// #[derive(Outgoing)]
/// #[outgoing(partition_key = "sku")]
/// struct StockChange {
///     sku: u64,
///     delta: i64,
/// }
///
/// struct Transfer {
///     from: u64,
///     to: u64,
/// }
///
/// impl Outgoing for Transfer {
///     fn partition_key(&self) -> Cow<'_, str> {
///         format!("{}-{}", self.from, self.to).into()
///     }
/// }
///
/// assert_eq!(StockChange { sku: 7, delta: -3 }.partition_key(), "7");
/// assert_eq!(Transfer { from: 1, to: 2 }.partition_key(), "1-2");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no partition key of its own",
    label = "not `Outgoing`",
    note = "write `#[derive(Outgoing)]` and `#[outgoing(partition_key = \"field\")]` on `{Self}`, or implement `rstream::Outgoing` for it",
    note = "a key from elsewhere is given where it is published: `.partition_key(key).publish(&value)`"
)]
pub trait Outgoing {
    /// The key: values of one key are stored, and handled, in the order in which they are published.
    fn partition_key(&self) -> Cow<'_, str>;
}

#[diagnostic::do_not_recommend]
impl<T: Outgoing + ?Sized> Outgoing for &T {
    fn partition_key(&self) -> Cow<'_, str> {
        (**self).partition_key()
    }
}
