//! What an attribute says about deliveries, as calls on the builder of the subscription.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Path, ReturnType};

use super::located_at;
use crate::model::{Options, Parameter, Retry, RetryValue, Time};

pub(super) fn calls(
    krate: &Path,
    options: &Options,
    output: &ReturnType,
    parameters: &[Parameter],
) -> TokenStream {
    let Options {
        batch,
        retry,
        dead_letter,
        on_undecodable,
        codec,
        reply,
    } = options;
    let batch = batch.as_ref().map(|(records, wait)| {
        let wait = time(wait);
        quote_spanned!(located_at(records.span())=> .batch(#records, #wait))
    });
    let retry = retry.as_ref().map(|retry| {
        let policy = match retry {
            Retry::Policy(policy) => policy.to_token_stream(),
            Retry::Settings(settings) => {
                let calls = settings.iter().map(|(name, value)| {
                    let value = match value {
                        RetryValue::Number(number) => number.to_token_stream(),
                        RetryValue::Time(given) => time(given),
                    };
                    quote_spanned!(located_at(name.span())=> .#name(#value))
                });
                quote!(#krate::RetryPolicy::exponential() #(#calls)*)
            }
        };
        quote!(.retry(#policy))
    });
    let dead_letter = (dead_letter.as_ref())
        .map(|name| quote_spanned!(located_at(name.span())=> .dead_letter(#name)));
    let on_undecodable =
        (on_undecodable.as_ref()).map(|what| quote!(.on_undecodable(#krate::OnUndecodable::#what)));
    let codec =
        (codec.as_ref()).map(|codec| quote_spanned!(located_at(codec.span())=> .codec(#codec)));
    let reply = match (reply, output) {
        (Some(name), ReturnType::Type(_, ty)) => {
            let returned = quote_spanned!(located_at(ty.span())=> #krate::__private::reply::<#ty>);
            Some(quote_spanned!(located_at(name.span())=> .returned(#returned(#name))))
        }
        _ => None,
    };
    let states = parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Context(_) => None,
        Parameter::State(ty) => {
            Some(quote_spanned!(located_at(ty.span())=> .requires_state::<#ty>()))
        }
    });
    quote!(#codec #batch #retry #dead_letter #on_undecodable #reply #(#states)*)
}

fn time(time: &Time) -> TokenStream {
    match time {
        Time::Expr(expr) => expr.to_token_stream(),
        Time::Text(duration) => {
            // A text is of whole milliseconds, so many as fit.
            let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            quote!(::core::time::Duration::from_millis(#milliseconds))
        }
    }
}
