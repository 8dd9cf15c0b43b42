//! What is misuse, and what to write instead: every error that the attributes give is here, or in a room of this one.

mod handler;
mod options;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{Expr, Path, ReturnType, Safety, Signature, parse_quote, parse2};

pub(crate) use handler::self_type;

use crate::model::{App, AppArgs, Function, Item, Setting, Subscriber, SubscriberArgs};

/// Faults, and what takes the place of the item that has them.
pub(crate) struct Misuse {
    pub(crate) faults: Faults,
    pub(crate) stub: Stub,
}

/// What takes the place of a faulty item, so that nothing else fails that mentions it.
pub(crate) enum Stub {
    /// The item as it is.
    Item(TokenStream),
    /// Something of the function's name that can be included.
    Subscriber {
        krate: Path,
        /// What the attribute mentions.
        mentioned: Vec<Expr>,
        function: Box<Function>,
    },
    /// A `main` that does nothing.
    Main(Box<Function>),
}

/// What was found wrong, in the order of the source.
#[derive(Default)]
pub(crate) struct Faults(pub(crate) Vec<syn::Error>);

impl Faults {
    fn at(&mut self, place: impl ToTokens, message: impl std::fmt::Display) {
        self.0.push(syn::Error::new_spanned(place, message));
    }

    fn at_span(&mut self, place: Span, message: impl std::fmt::Display) {
        self.0.push(syn::Error::new(place, message));
    }

    fn with(self, stub: Stub) -> Misuse {
        Misuse { faults: self, stub }
    }
}

pub(crate) fn subscriber(arguments: TokenStream, item: TokenStream) -> Result<Subscriber, Misuse> {
    let mut faults = Faults::default();
    let function = function(
        &mut faults,
        item,
        "`#[subscriber(..)]` goes on an `async fn`",
    )?;

    let (source, settings) = match parse2(arguments) {
        Ok(SubscriberArgs { source, settings }) => {
            if source.is_none() {
                faults.at_span(
                    Span::call_site(),
                    "the source is missing: write what the handler reads, such as \
                     `#[subscriber(KinesisStream::new(\"inventory\"))]`",
                );
            }
            (source, settings)
        }
        Err(error) => {
            faults.0.push(error);
            (None, Vec::new())
        }
    };
    let (krate, settings) = krate(&mut faults, settings);
    let batches = options::names(&settings, "batch");
    let options = options::options(&mut faults, settings, &function.signature);
    let parameters = handler::handler(&mut faults, &function.signature, batches);

    match (source, parameters) {
        (Some(source), Some((message, parameters))) if faults.0.is_empty() => Ok(Subscriber {
            krate,
            source,
            function,
            message,
            parameters,
            options,
        }),
        (source, _) => {
            let mentioned = source.into_iter().chain(options.into_expressions());
            Err(faults.with(Stub::Subscriber {
                krate,
                mentioned: mentioned.collect(),
                function: Box::new(function),
            }))
        }
    }
}

pub(crate) fn app(arguments: TokenStream, item: TokenStream) -> Result<App, Misuse> {
    let mut faults = Faults::default();
    let function = function(
        &mut faults,
        item,
        "`#[rstream::app]` goes on a function that returns the app",
    )?;

    let settings = match parse2(arguments) {
        Ok(AppArgs { settings }) => settings,
        Err(error) => {
            faults.0.push(error);
            Vec::new()
        }
    };
    let (krate, others) = krate(&mut faults, settings);
    for setting in others {
        if let Setting::Named { tokens, .. } | Setting::Unknown(tokens) = setting {
            faults.at(tokens, "unknown option: the only one is `crate = path`");
        }
    }

    let signature = &function.signature;
    plain(&mut faults, signature, "an app function");
    if !signature.inputs.is_empty() {
        faults.at(
            &signature.inputs,
            format_args!(
                "an app function takes no arguments: write `fn {}()`",
                signature.ident
            ),
        );
    }
    if matches!(signature.output, ReturnType::Default) {
        faults.at(
            &signature.ident,
            format_args!(
                "an app function returns the app: write `fn {}() -> RustStream`",
                signature.ident
            ),
        );
    }

    if faults.0.is_empty() {
        Ok(App { krate, function })
    } else {
        Err(faults.with(Stub::Main(Box::new(function))))
    }
}

fn function(faults: &mut Faults, item: TokenStream, wanted: &str) -> Result<Function, Misuse> {
    let as_it_was = item.clone();
    match parse2(item) {
        Ok(Item::Function(function)) => return Ok(*function),
        Ok(Item::Other { keyword }) => faults.at(keyword, wanted),
        Err(error) => faults.0.push(error),
    }
    Err(std::mem::take(faults).with(Stub::Item(as_it_was)))
}

/// The path of `crate = path`, or `::rstream`; and the other settings.
fn krate(faults: &mut Faults, settings: Vec<Setting>) -> (Path, Vec<Setting>) {
    let mut krate = None;
    let mut others = Vec::new();
    for setting in settings {
        match setting {
            Setting::Crate { tokens, .. } if krate.is_some() => {
                faults.at(tokens, "`crate` is given twice: remove this one");
            }
            Setting::Crate { path, .. } => krate = Some(path),
            Setting::Named { .. } | Setting::Unknown(_) => others.push(setting),
        }
    }
    (krate.unwrap_or_else(|| parse_quote!(::rstream)), others)
}

/// Faults of qualifiers and generics, which neither macro has a use for.
fn plain(faults: &mut Faults, signature: &Signature, what: &str) {
    if let Some(token) = &signature.constness {
        faults.at(token, format_args!("{what} is not `const`: remove this"));
    }
    if let Safety::Unsafe(_) | Safety::Safe(_) = &signature.safety {
        faults.at(
            &signature.safety,
            format_args!("{what} is not `unsafe`: remove this"),
        );
    }
    if let Some(abi) = &signature.abi {
        faults.at(abi, format_args!("{what} is not `extern`: remove this"));
    }
    if signature.generics.lt_token.is_some() {
        faults.at(
            &signature.generics,
            format_args!("{what} has no generic parameters: write the types out, and remove these"),
        );
    }
    if let Some(clause) = &signature.generics.where_clause {
        faults.at(
            clause,
            format_args!("{what} has no `where` clause: remove this"),
        );
    }
    if let Some(variadic) = &signature.variadic {
        faults.at(
            variadic.dots,
            format_args!("{what} is not variadic: remove this"),
        );
    }
}
