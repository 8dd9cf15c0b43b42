//! What is misuse, and what to write instead: every error that the macros give is here.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{Expr, FnArg, Path, ReturnType, Safety, Signature, Token, Type, parse_quote, parse2};

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
        source: Option<Expr>,
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

    fn with(self, stub: Stub) -> Box<Misuse> {
        Box::new(Misuse { faults: self, stub })
    }
}

pub(crate) fn subscriber(
    arguments: TokenStream,
    item: TokenStream,
) -> Result<Subscriber, Box<Misuse>> {
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
    let krate = krate(&mut faults, settings);
    let parameters = handler(&mut faults, &function.signature);

    match (source, parameters) {
        (Some(source), Some((message, context))) if faults.0.is_empty() => Ok(Subscriber {
            krate,
            source,
            function,
            message,
            context,
        }),
        (source, _) => Err(faults.with(Stub::Subscriber {
            krate,
            source,
            function: Box::new(function),
        })),
    }
}

pub(crate) fn app(arguments: TokenStream, item: TokenStream) -> Result<App, Box<Misuse>> {
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
    let krate = krate(&mut faults, settings);

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

fn function(faults: &mut Faults, item: TokenStream, wanted: &str) -> Result<Function, Box<Misuse>> {
    let as_it_was = item.clone();
    match parse2(item) {
        Ok(Item::Function(function)) => return Ok(*function),
        Ok(Item::Other { keyword }) => faults.at(keyword, wanted),
        Err(error) => faults.0.push(error),
    }
    Err(std::mem::take(faults).with(Stub::Item(as_it_was)))
}

/// The path of `crate = path`, or `::rstream`.
fn krate(faults: &mut Faults, settings: Vec<Setting>) -> Path {
    let mut krate = None;
    for setting in settings {
        match setting {
            Setting::Crate { tokens, .. } if krate.is_some() => {
                faults.at(tokens, "`crate` is given twice: remove this one");
            }
            Setting::Crate { path, .. } => krate = Some(path),
            Setting::Unknown(tokens) => {
                faults.at(tokens, "unknown option: the only one is `crate = path`");
            }
        }
    }
    krate.unwrap_or_else(|| parse_quote!(::rstream))
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

/// Gives the types of the message and, where there is one, of the context.
fn handler(faults: &mut Faults, signature: &Signature) -> Option<(Type, Option<Type>)> {
    if let Some(receiver) = signature.receiver() {
        faults.at(
            receiver,
            "a handler under `#[subscriber(..)]` has no `self`: write a free `async fn`, or implement \
             `Handle` for the type",
        );
        return None;
    }
    if signature.asyncness.is_none() {
        faults.at(
            signature.fn_token,
            format_args!("a handler is async: write `async fn {}`", signature.ident),
        );
    }
    plain(faults, signature, "a handler");
    if let ReturnType::Type(_, ty) = &signature.output
        && let Type::ImplTrait(ty) = &**ty
    {
        faults.at(
            ty,
            "a handler names the type that it returns: write `HandlerOutcome`, or `Result<(), E>`",
        );
    }

    let mut parameters = signature.inputs.iter().filter_map(typed);
    let Some(first) = parameters.next() else {
        faults.at_span(
            signature.paren_token.span.join(),
            "a handler takes its message: write `(message: &T)`, with its type for `T`",
        );
        return None;
    };
    if is_context(first) {
        faults.at(
            first,
            "the message comes before the context: write `(message: &T, ctx: &mut Context<'_>)`",
        );
        return None;
    }
    // A lifetime among the generic parameters has been spoken of.
    let lifetimes = signature.generics.lifetimes().next().is_none();
    let message = message_type(faults, first, lifetimes);
    let context = parameters.next();
    if let Some(ty) = context
        && !is_context(ty)
    {
        faults.at(
            ty,
            "the second parameter is the context: write `&mut Context<'_>`",
        );
    }
    let surplus: Punctuated<_, Token![,]> = signature.inputs.iter().skip(2).collect();
    if !surplus.is_empty() {
        faults.at(
            surplus,
            "a handler takes its message and, if it likes, `&mut Context<'_>`: remove what follows",
        );
    }
    Some((message?, context.cloned()))
}

/// The `T` of `&T`.
fn message_type(faults: &mut Faults, ty: &Type, lifetimes: bool) -> Option<Type> {
    let Type::Reference(reference) = bare(ty) else {
        let message = match ty {
            Type::ImplTrait(_) | Type::Infer(_) => "T".to_owned(),
            _ => written(ty),
        };
        faults.at(
            ty,
            format_args!("a handler borrows its message: write `&{message}`"),
        );
        return None;
    };
    let message = bare(&reference.elem);
    if reference.mutability.is_some() {
        faults.at(
            ty,
            format_args!(
                "a handler does not change its message: write `&{}`",
                written(message)
            ),
        );
        return None;
    }
    if let Some(lifetime) = &reference.lifetime
        && lifetimes
    {
        faults.at(
            lifetime,
            "the message is borrowed for the call alone: remove this lifetime",
        );
        return None;
    }
    if let Some(borrow) = borrow(message.to_token_stream())
        && lifetimes
    {
        faults.at(
            borrow,
            "a message owns what it is made of, since it is decoded before the handler is called: give it a type \
             that borrows nothing",
        );
        return None;
    }
    if let Some(token) = self_type(message.to_token_stream()) {
        faults.at(
            token,
            "a handler stands for itself, in an `impl` too: write the type's name for `Self`",
        );
        return None;
    }
    let instead = match message {
        Type::Slice(_) => {
            "a handler takes one message: write `&T`, or `&Vec<T>` where each message is an array"
        }
        Type::ImplTrait(_) | Type::TraitObject(_) | Type::Infer(_) => {
            "a handler names the type that messages are decoded into: write `&T`, with a type for `T`"
        }
        Type::Path(path) if path.path.is_ident("str") => {
            "a message has an owned type: write `&String`"
        }
        _ => return Some(message.clone()),
    };
    faults.at(ty, instead);
    None
}

/// The first token in a type that borrows from something shorter-lived than the program.
fn borrow(tokens: TokenStream) -> Option<TokenStream> {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(quote) if quote.as_char() == '\'' => {
                let name = tokens.next();
                if name
                    .as_ref()
                    .is_none_or(|name| name.to_string() != "static")
                {
                    return Some(TokenStream::from_iter(
                        [TokenTree::Punct(quote)].into_iter().chain(name),
                    ));
                }
            }
            TokenTree::Punct(ampersand) if ampersand.as_char() == '&' => {
                let next = tokens.peek().map(ToString::to_string);
                if next.as_deref() != Some("'") {
                    return Some(TokenTree::Punct(ampersand).into());
                }
            }
            TokenTree::Group(group) => {
                if let Some(found) = borrow(group.stream()) {
                    return Some(found);
                }
            }
            _ => {}
        }
    }
    None
}

/// The first `Self` among `tokens`.
pub(crate) fn self_type(tokens: TokenStream) -> Option<TokenTree> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ref name) if name == "Self" => Some(token),
        TokenTree::Group(group) => self_type(group.stream()),
        _ => None,
    })
}

/// Whether a type is `&mut Context`, by whatever path.
fn is_context(ty: &Type) -> bool {
    let Type::Reference(reference) = bare(ty) else {
        return false;
    };
    let Type::Path(path) = bare(&reference.elem) else {
        return false;
    };
    let name = path.path.segments.last();
    reference.mutability.is_some() && name.is_some_and(|name| name.ident == "Context")
}

fn typed(parameter: &FnArg) -> Option<&Type> {
    match parameter {
        FnArg::Typed(parameter) => Some(&parameter.ty),
        FnArg::Receiver(_) => None,
    }
}

/// A type without the groups and parentheses around it.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        _ => ty,
    }
}

/// A type as a person writes it.
fn written(ty: &Type) -> String {
    let spaced = ty.to_token_stream().to_string();
    [" <", "< ", " >", " ::", ":: ", " ,", "& "]
        .iter()
        .fold(spaced, |text, spaced| text.replace(spaced, spaced.trim()))
}
