//! Structs of every form, and lints that have nothing to say of them.
#![deny(
    warnings,
    future_incompatible,
    missing_copy_implementations,
    missing_debug_implementations,
    missing_docs,
    nonstandard_style,
    rust_2018_idioms,
    single_use_lifetimes,
    unreachable_pub,
    unsafe_code,
    unused,
    unused_qualifications
)]

use std::fmt::Display;

use rstream::Outgoing;

/// As another crate exports it.
pub mod framework {
    pub use rstream::{__private, Outgoing};
}

/// Of named fields, one of them with a keyword for a name.
#[derive(Clone, Copy, Debug, Outgoing)]
#[outgoing(partition_key = "type")]
pub struct Named {
    /// The key.
    pub r#type: char,
    /// No key.
    pub delta: i64,
}

/// Of a tuple.
#[derive(Debug, Outgoing)]
#[outgoing(partition_key = "1")]
pub struct Tuple(pub i64, pub String);

/// Of something borrowed.
#[derive(Clone, Copy, Debug, Outgoing)]
#[outgoing(partition_key = "sku",)]
pub struct Borrowed<'a> {
    /// The key.
    pub sku: &'a str,
}

/// Of something that has parameters, and no bound where none is needed.
#[derive(Clone, Copy, Debug, Outgoing)]
#[outgoing(partition_key = "key")]
pub struct Envelope<K, B, const N: usize>
where
    B: Clone,
{
    /// The key.
    pub key: K,
    /// Anything.
    pub body: [B; N],
}

/// By another path.
#[derive(Clone, Copy, Debug, Outgoing)]
#[outgoing(partition_key = "sku", crate = crate::framework)]
pub struct Elsewhere {
    /// The key.
    pub sku: u64,
}

/// A key that hides what the macro uses.
pub mod hides {
    /// Not that of the language.
    #[allow(non_camel_case_types, missing_copy_implementations)]
    #[derive(Debug)]
    pub struct str;

    /// A value.
    #[derive(Clone, Copy, Debug, rstream::Outgoing)]
    #[outgoing(partition_key = "sku")]
    pub struct Change {
        /// The key.
        pub sku: u64,
    }
}

fn key(value: &(impl Outgoing + ?Sized)) -> String {
    value.partition_key().into_owned()
}

fn enveloped<K: Display>(sku: K) -> String {
    struct Undisplayable;

    impl Clone for Undisplayable {
        fn clone(&self) -> Self {
            Self
        }
    }

    key(&Envelope {
        key: sku,
        body: [const { Undisplayable }; 2],
    })
}

fn main() {
    assert_eq!(key(&Named { r#type: 'x', delta: 1 }), "x");
    assert_eq!(key(&Tuple(1, "sku-7".to_owned())), "sku-7");
    assert_eq!(key(&Borrowed { sku: "ß" }), "ß");
    assert_eq!(key(&&Borrowed { sku: "a" }), "a");
    assert_eq!(enveloped(7.5), "7.5");
    assert_eq!(key(&Elsewhere { sku: 7 }), "7");
    assert_eq!(key(&hides::Change { sku: 7 }), "7");
    let dynamic: &dyn Outgoing = &Elsewhere { sku: 8 };
    assert_eq!(key(dynamic), "8");
}
