//! What the macros write.
//!
//! A handler becomes a function of the same name that makes its subscription: it is passed to `include` by name
//! and from other modules like any item, and a variable may have its name. The user's function is nested in it,
//! where its name hides the other, its attributes act on it as written, and its paths mean what they meant.

mod settings;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Attribute, ReturnType, Safety};

use crate::model::{App, Function, Parameter, Subscriber};
use crate::validate::{Misuse, Stub, self_type};

pub(crate) fn subscriber(subscriber: Subscriber) -> TokenStream {
    let Subscriber {
        krate,
        source,
        function,
        message,
        parameters,
        options,
    } = subscriber;
    let Function {
        attributes,
        visibility,
        mut signature,
        body,
    } = function;
    let name = signature.ident.clone();
    let (on_item, on_function): (Vec<_>, Vec<_>) = attributes.into_iter().partition(is_of_item);

    // Hygienic, and at the function's name, where the compiler then says what is wrong with its future.
    let here = Span::mixed_site().located_at(name.span());
    // What a lint says of the name, it says of the outer function's.
    signature.ident.set_span(here);
    let numbered = parameters.iter().enumerate();
    let given = numbered.clone().map(|(at, parameter)| match parameter {
        Parameter::Context(ty) => quote_spanned!(located_at(ty.span())=> __ctx),
        Parameter::State(ty) => {
            let state = format_ident!("__state{at}", span = located_at(ty.span()));
            quote_spanned!(located_at(ty.span())=> #state)
        }
    });
    // Before the context is lent.
    let states = numbered
        .clone()
        .filter_map(|(at, parameter)| match parameter {
            Parameter::Context(_) => None,
            Parameter::State(ty) => {
                let state = format_ident!("__state{at}", span = located_at(ty.span()));
                let there = located_at(ty.span());
                Some(quote_spanned!(there=> let #state = #krate::__private::state::<#ty>(__ctx);))
            }
        });
    let returned = match &signature.output {
        ReturnType::Default => here,
        ReturnType::Type(_, ty) => located_at(ty.span()),
    };
    let call = quote_spanned!(returned=> #name(__message #(, #given)*).await);
    let (reply, result) = match (&options.reply, &signature.output) {
        (Some(_), ReturnType::Type(_, ty)) => (
            ty.to_token_stream(),
            quote_spanned!(returned=> ::core::result::Result::Ok(#call)),
        ),
        _ => (
            quote_spanned!(here=> ()),
            quote_spanned!(returned=> #krate::__private::IntoResult::into_result(#call)),
        ),
    };
    let handled = match &options.batch {
        Some(_) => quote_spanned!(message.span()=> [#message]),
        None => message.to_token_stream(),
    };

    let handle = quote_spanned! {here=>
        async fn handle(
            &self,
            __message: &#handled,
            __outs: &(),
            __ctx: &mut #krate::Context<'_>,
        ) -> ::core::result::Result<#reply, #krate::HandlerOutcome> {
            #(#on_function)*
            #signature
            #body
            #(#states)*
            #result
        }
    };
    // At the source's own tokens, where the compiler then says that it is none.
    let subscription = quote_spanned!(source.span()=> #krate::subscriber);
    let subscribed = quote_spanned!(here=> #source, __Handler);
    let mut arguments = Group::new(Delimiter::Parenthesis, subscribed);
    arguments.set_span(source.span());
    let settings = settings::calls(&krate, &options, &signature.output, &parameters);
    let made = quote_spanned! {here=>
        struct __Handler;

        impl #krate::Handle<#handled, #reply> for __Handler {
            #handle
        }

        #subscription #arguments #settings.build::<#message>()
    };
    // A lint says nothing of what stems from a macro; what it says of this function, it would say of the user's.
    let end = signature.paren_token.span.close();
    let begins = quote_spanned!(signature.fn_token.span=> #visibility fn #name);
    let returns = quote_spanned!(end=> () -> #krate::broker::Subscription);
    let mut body = Group::new(Delimiter::Brace, made);
    body.set_span(end);

    quote! {
        // What a handler's signature has to be is no fault of its author's.
        #[allow(
            clippy::ptr_arg,
            clippy::trivially_copy_pass_by_ref,
            clippy::unused_async,
            clippy::used_underscore_binding,
        )]
        #(#on_item)*
        #begins #returns #body
    }
}

/// Hygienic, and at the user's own tokens.
fn located_at(place: Span) -> Span {
    Span::mixed_site().located_at(place)
}

pub(crate) fn app(app: App) -> TokenStream {
    let App { krate, function } = app;
    let Function {
        attributes,
        visibility,
        signature,
        body,
    } = function;
    let name = &signature.ident;
    let returned = match &signature.output {
        ReturnType::Default => Span::mixed_site(),
        ReturnType::Type(_, ty) => Span::mixed_site().located_at(ty.span()),
    };
    let wait = signature
        .asyncness
        .map(|_| quote_spanned!(returned=> .await));
    let made = quote_spanned!(returned=> #krate::__private::IntoApp::into_app(#name() #wait));
    let call = quote!(#krate::__private::main(async || #made));
    let function = quote! {
        #(#attributes)*
        #visibility #signature #body
    };

    program(name, &function, &call)
}

/// A `main` that runs `call`, with the function in it where that is called `main` too.
fn program(name: &Ident, function: &TokenStream, call: &TokenStream) -> TokenStream {
    let (outside, inside) = if name == "main" {
        (None, Some(function))
    } else {
        (Some(function), None)
    };
    quote! {
        #outside
        fn main() -> ::std::process::ExitCode {
            #inside
            #call
        }
    }
}

pub(crate) fn misuse(misuse: Misuse) -> TokenStream {
    let errors = misuse.faults.0.iter().map(syn::Error::to_compile_error);
    let stub = match misuse.stub {
        Stub::Item(item) => item,
        Stub::Subscriber {
            krate,
            mentioned,
            function,
        } => {
            let visibility = &function.visibility;
            let name = &function.signature.ident;
            let function = remains(&function, true);
            quote! {
                #[allow(missing_docs, unused, clippy::all, clippy::pedantic)]
                #visibility fn #name() -> #krate::broker::Subscription {
                    #(let _ = || #mentioned;)*
                    #function
                    #krate::__private::misused()
                }
            }
        }
        Stub::Main(function) => program(
            &function.signature.ident,
            &remains(&function, false).unwrap_or_default(),
            &quote!(::std::process::ExitCode::FAILURE),
        ),
    };
    quote! {
        #(#errors)*
        #stub
    }
}

/// What a faulty function can stay as, so that what it uses is not unused as well: nothing, where it takes what
/// only a method can. A body that awaits may be that of a handler that lacks its `async`.
fn remains(function: &Function, is_handler: bool) -> Option<TokenStream> {
    let inputs = &function.signature.inputs;
    let inputs = inputs.to_token_stream();
    let of_method = function.signature.receiver().is_some() || self_type(inputs.clone()).is_some();
    if of_method || has_placeholder(inputs) {
        return None;
    }
    let mut signature = function.signature.clone();
    signature.constness = None;
    signature.safety = Safety::Default;
    signature.abi = None;
    signature.variadic = None;
    if is_handler {
        signature.asyncness.get_or_insert_default();
    }
    let body = &function.body;
    Some(quote! {
        #[allow(unused, clippy::all, clippy::pedantic)]
        #signature #body
    })
}

/// Whether a type among `tokens` is left to be inferred, which the compiler would speak of too.
fn has_placeholder(tokens: TokenStream) -> bool {
    let mut in_type = false;
    tokens.into_iter().any(|token| {
        let found = match &token {
            TokenTree::Ident(name) => in_type && name == "_",
            TokenTree::Group(group) => has_placeholder(group.stream()),
            _ => false,
        };
        in_type = matches!(&token, TokenTree::Punct(punct) if matches!(punct.as_char(), '<' | '&'));
        found
    })
}

/// Whether an attribute of the user's function acts on the item that takes its place: documentation does, and
/// lints' levels reach from there what is nested. There is no `cfg` or `cfg_attr` to be told: the compiler settles
/// those before it expands any macro.
fn is_of_item(attribute: &Attribute) -> bool {
    [
        "doc",
        "deprecated",
        "allow",
        "warn",
        "deny",
        "forbid",
        "expect",
    ]
    .iter()
    .any(|name| attribute.path().is_ident(name))
}
