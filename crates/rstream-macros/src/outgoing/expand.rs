//! What `#[derive(Outgoing)]` writes.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Generics, Path, parse_quote};

use super::{Misuse, Outgoing};

pub(crate) fn outgoing(outgoing: Outgoing) -> TokenStream {
    let Outgoing {
        krate,
        name,
        mut generics,
        key,
        key_type,
    } = outgoing;
    let parameters: Vec<_> = generics
        .type_params()
        .map(|parameter| parameter.ident.clone())
        .collect();
    if mentions(key_type.to_token_stream(), &parameters) {
        let clause = generics.make_where_clause();
        clause
            .predicates
            .push(parse_quote!(#key_type: ::core::fmt::Display));
    }
    // At the field's type, where the compiler then says that it is no key.
    let here = Span::mixed_site().located_at(key_type.span());
    let this = quote!(self);
    let call = quote_spanned!(here=> #krate::__private::PartitionKey::partition_key(&#this.#key));
    implementation(&krate, &name, &generics, &call)
}

/// The errors, and an implementation that stands in, so that nothing else fails that asks for one.
pub(crate) fn misuse(misuse: Box<Misuse>) -> TokenStream {
    let errors = misuse.faults.iter().map(syn::Error::to_compile_error);
    let stub = misuse.item.map(|item| {
        let call = quote!(::core::unreachable!("the macro gave an error"));
        implementation(&misuse.krate, &item.ident, &item.generics, &call)
    });
    quote! {
        #(#errors)*
        #stub
    }
}

fn implementation(
    krate: &Path,
    name: &Ident,
    generics: &Generics,
    call: &TokenStream,
) -> TokenStream {
    let (parameters, arguments, clause) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #parameters #krate::Outgoing for #name #arguments #clause {
            fn partition_key(&self) -> ::std::borrow::Cow<'_, ::core::primitive::str> {
                #call
            }
        }
    }
}

fn mentions(tokens: TokenStream, names: &[Ident]) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => names.contains(&ident),
        TokenTree::Group(group) => mentions(group.stream(), names),
        _ => false,
    })
}
