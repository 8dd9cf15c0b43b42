//! The syntax model: what an attribute and its item say, before (`SubscriberArgs`, `AppArgs`, `Item`) and after
//! (`Subscriber`, `App`) they were found to be right.

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, Expr, Path, Signature, Type, Visibility};

/// What stands in `#[subscriber(..)]`.
pub(crate) struct SubscriberArgs {
    pub(crate) source: Option<Expr>,
    pub(crate) settings: Vec<Setting>,
}

/// What stands in `#[rstream::app(..)]`.
pub(crate) struct AppArgs {
    pub(crate) settings: Vec<Setting>,
}

/// One comma-separated part of an attribute.
pub(crate) enum Setting {
    /// `crate = path`.
    Crate { path: Path, tokens: TokenStream },
    /// Anything else.
    Unknown(TokenStream),
}

/// What an attribute stands on.
pub(crate) enum Item {
    Function(Box<Function>),
    /// Something else, that begins (after attributes and visibility) with `keyword`.
    Other {
        keyword: TokenTree,
    },
}

/// A function with a body.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    pub(crate) body: TokenTree,
}

/// A handler without fault.
pub(crate) struct Subscriber {
    pub(crate) krate: Path,
    pub(crate) source: Expr,
    pub(crate) function: Function,
    /// The `T` of the first parameter, `&T`.
    pub(crate) message: Type,
    /// The type of the second parameter, if there is one.
    pub(crate) context: Option<Type>,
}

/// An app function without fault.
pub(crate) struct App {
    pub(crate) krate: Path,
    pub(crate) function: Function,
}
