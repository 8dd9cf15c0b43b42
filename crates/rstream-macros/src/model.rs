//! The syntax model: what an attribute and its item say, before (`SubscriberArgs`, `AppArgs`, `Item`) and after
//! (`Subscriber`, `App`) they were found to be right.

use std::time::Duration;

use proc_macro2::{Ident, TokenStream, TokenTree};
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

/// The names of what can stand in `#[subscriber(..)]` after the source, besides `crate`.
pub(crate) const OPTIONS: [&str; 6] = [
    "batch",
    "retry",
    "dead_letter",
    "on_undecodable",
    "codec",
    "reply",
];

/// One comma-separated part of an attribute.
pub(crate) enum Setting {
    /// `crate = path`.
    Crate { path: Path, tokens: TokenStream },
    /// `name(arguments)`, or, without `arguments`, what else begins with a name.
    Named {
        name: Ident,
        arguments: Option<TokenStream>,
        tokens: TokenStream,
    },
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
    /// The `T` of the first parameter: of `&T`, or, with `batch(..)`, of `&[T]`.
    pub(crate) message: Type,
    /// What comes after it.
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) options: Options,
}

/// A parameter of a handler after its message.
pub(crate) enum Parameter {
    /// `&mut Context<'_>`, with its type.
    Context(Type),
    /// `State<T>`, with `T`.
    State(Type),
}

/// The named settings of `#[subscriber(..)]`.
#[derive(Default)]
pub(crate) struct Options {
    /// The most messages, and how long to wait for them.
    pub(crate) batch: Option<(Expr, Time)>,
    pub(crate) retry: Option<Retry>,
    pub(crate) dead_letter: Option<Expr>,
    /// The name of a variant of `OnUndecodable`.
    pub(crate) on_undecodable: Option<Ident>,
    pub(crate) codec: Option<Expr>,
    pub(crate) reply: Option<Expr>,
}

/// `retry(..)`.
pub(crate) enum Retry {
    /// An expression that gives a policy.
    Policy(Expr),
    /// Methods of the default policy, with their arguments.
    Settings(Vec<(Ident, RetryValue)>),
}

pub(crate) enum RetryValue {
    Number(Expr),
    Time(Time),
}

/// A span of time.
pub(crate) enum Time {
    /// Written as `"50ms"`.
    Text(Duration),
    /// An expression that gives a `Duration`.
    Expr(Expr),
}

impl Options {
    /// Every expression in them, so that a stub can mention what they mention.
    pub(crate) fn into_expressions(self) -> Vec<Expr> {
        let of_time = |time| match time {
            Time::Text(_) => None,
            Time::Expr(expr) => Some(expr),
        };
        let (records, wait) = self.batch.unzip();
        let retries = match self.retry {
            None => Vec::new(),
            Some(Retry::Policy(policy)) => vec![policy],
            Some(Retry::Settings(settings)) => (settings.into_iter())
                .filter_map(|(_, value)| match value {
                    RetryValue::Number(number) => Some(number),
                    RetryValue::Time(time) => of_time(time),
                })
                .collect(),
        };
        let others = [
            records,
            wait.and_then(of_time),
            self.dead_letter,
            self.codec,
            self.reply,
        ];
        others.into_iter().flatten().chain(retries).collect()
    }
}

/// An app function without fault.
pub(crate) struct App {
    pub(crate) krate: Path,
    pub(crate) function: Function,
}
