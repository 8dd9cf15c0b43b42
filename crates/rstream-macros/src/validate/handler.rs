//! What a handler's signature has to be.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{FnArg, GenericArgument, PathArguments, ReturnType, Signature, Type};

use super::{Faults, plain};
use crate::model::Parameter;

const NO_SELF: &str =
    "a handler stands for itself, in an `impl` too: write the type's name for `Self`";

/// Gives the type of the message (of one, in a batch), and what comes after it.
pub(super) fn handler(
    faults: &mut Faults,
    signature: &Signature,
    batches: bool,
) -> Option<(Type, Vec<Parameter>)> {
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
    let early = if is_context(first, true) {
        Some("the message comes before the context: write `(message: &T, ctx: &mut Context<'_>)`")
    } else if is_named(first, "State") {
        Some("the message comes before the states: write `(message: &T, state: State<U>)`")
    } else {
        None
    };
    if let Some(early) = early {
        faults.at(first, early);
        return None;
    }
    // A lifetime among the generic parameters has been spoken of.
    let lifetimes = signature.generics.lifetimes().next().is_none();
    let message = message_type(faults, first, lifetimes, batches);

    let mut others = Vec::new();
    for ty in parameters {
        let is_second = (others.iter()).any(|other| matches!(other, Parameter::Context(_)));
        others.extend(parameter(faults, ty, is_second));
    }
    Some((message?, others))
}

/// A parameter after the message.
fn parameter(faults: &mut Faults, ty: &Type, has_context: bool) -> Option<Parameter> {
    let fault = if is_context(ty, true) {
        if !has_context {
            return Some(Parameter::Context(ty.clone()));
        }
        "the context is given twice: remove this one"
    } else if is_context(ty, false) || is_named(ty, "Context") {
        "the context is borrowed to be changed: write `&mut Context<'_>`"
    } else if is_named(ty, "State") {
        match state_type(ty) {
            Some(of) => match self_type(of.to_token_stream()) {
                None => return Some(Parameter::State(of)),
                Some(token) => {
                    faults.at(token, NO_SELF);
                    return None;
                }
            },
            None => "a state is found by its type: write `State<T>`, with a type for `T`",
        }
    } else if let Type::Reference(reference) = bare(ty)
        && is_named(&reference.elem, "State")
    {
        faults.at(
            ty,
            format_args!(
                "a state is a handle, taken by value: write `{}`",
                written(bare(&reference.elem))
            ),
        );
        return None;
    } else {
        "after its message a handler takes `&mut Context<'_>` and any number of states, `State<T>`: write one of \
         these, or remove this"
    };
    faults.at(ty, fault);
    None
}

/// The `T` of `&T`, or, with `batches`, of `&[T]`.
fn message_type(faults: &mut Faults, ty: &Type, lifetimes: bool, batches: bool) -> Option<Type> {
    let Type::Reference(reference) = bare(ty) else {
        let message = named(ty);
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
        faults.at(token, NO_SELF);
        return None;
    }
    let instead = match message {
        Type::Slice(slice) if is_u8(&slice.elem) => {
            if !batches {
                return Some(message.clone());
            }
            "a batch of payloads, as they are, is `&[Bytes]`"
        }
        Type::Slice(slice) if batches => match unnamed(bare(&slice.elem)) {
            None => return Some((*slice.elem).clone()),
            Some(instead) => instead,
        },
        Type::Slice(_) => {
            "a slice is a batch: write `batch(500, \"50ms\")` in the attribute, with its limits, or `&Vec<T>` where \
             each message is an array"
        }
        _ if batches => {
            faults.at(
                ty,
                format_args!(
                    "with `batch(..)` a handler takes a batch: write `&[{}]`",
                    named(message)
                ),
            );
            return None;
        }
        _ => match unnamed(message) {
            None => return Some(message.clone()),
            Some(instead) => instead,
        },
    };
    faults.at(ty, instead);
    None
}

/// What to write for a type that nothing can be decoded into.
fn unnamed(message: &Type) -> Option<&'static str> {
    match message {
        Type::ImplTrait(_) | Type::TraitObject(_) | Type::Infer(_) => Some(
            "a handler names the type that messages are decoded into: write `&T`, with a type for `T`",
        ),
        Type::Path(path) if path.path.is_ident("str") => {
            Some("a message has an owned type: write `&String`")
        }
        _ => None,
    }
}

/// A type as a person writes it, or `T` where it has no name.
fn named(ty: &Type) -> String {
    match ty {
        Type::ImplTrait(_) | Type::TraitObject(_) | Type::Infer(_) => "T".to_owned(),
        _ => written(ty),
    }
}

fn is_u8(ty: &Type) -> bool {
    matches!(bare(ty), Type::Path(path) if path.path.is_ident("u8"))
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

/// Whether a type is `&mut Context`, or, without `mutable`, `&Context`; by whatever path.
fn is_context(ty: &Type, mutable: bool) -> bool {
    let Type::Reference(reference) = bare(ty) else {
        return false;
    };
    reference.mutability.is_some() == mutable && is_named(&reference.elem, "Context")
}

/// Whether a type has that name, by whatever path.
fn is_named(ty: &Type, wanted: &str) -> bool {
    let Type::Path(path) = bare(ty) else {
        return false;
    };
    let name = path.path.segments.last();
    name.is_some_and(|name| name.ident == wanted)
}

/// The `T` of `State<T>`.
fn state_type(ty: &Type) -> Option<Type> {
    let Type::Path(path) = bare(ty) else {
        return None;
    };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
        return None;
    };
    match arguments.args.first()? {
        GenericArgument::Type(of) if arguments.args.len() == 1 => match of {
            Type::ImplTrait(_) | Type::Infer(_) => None,
            _ => Some(of.clone()),
        },
        _ => None,
    }
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
