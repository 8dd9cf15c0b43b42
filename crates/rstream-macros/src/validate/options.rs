//! What may stand in `#[subscriber(..)]` after the source.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens as _;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Lit, ReturnType, Signature, Token};

use super::Faults;
use crate::model::{Options, Retry, RetryValue, Setting, Time};

type Arguments = Punctuated<Expr, Token![,]>;

/// Whether one of `settings` has that name, in whatever shape.
pub(super) fn names(settings: &[Setting], wanted: &str) -> bool {
    settings.iter().any(|setting| match setting {
        Setting::Named { name, .. } => name == wanted,
        Setting::Crate { .. } | Setting::Unknown(_) => false,
    })
}

pub(super) fn options(
    faults: &mut Faults,
    settings: Vec<Setting>,
    signature: &Signature,
) -> Options {
    let dead_letters = names(&settings, "dead_letter");
    let mut options = Options::default();
    let mut seen: Vec<Ident> = Vec::new();
    for setting in settings {
        let Setting::Named {
            name,
            arguments,
            tokens,
        } = setting
        else {
            if let Setting::Unknown(tokens) = setting {
                faults.at(tokens, UNKNOWN);
            }
            continue;
        };
        let text = name.to_string();
        let Some(usage) = usage(&text) else {
            faults.at(tokens, UNKNOWN);
            continue;
        };
        if seen.contains(&name) {
            faults.at(
                tokens,
                format_args!("`{text}` is given twice: remove this one"),
            );
            continue;
        }
        seen.push(name);
        let Some(arguments) = arguments.filter(|arguments| !arguments.is_empty()) else {
            faults.at(tokens, format_args!("write `{usage}`"));
            continue;
        };
        match text.as_str() {
            "batch" => options.batch = batch(faults, arguments, usage),
            "retry" => options.retry = retry(faults, arguments, usage),
            "dead_letter" => {
                options.dead_letter = destination(faults, arguments, usage);
            }
            "on_undecodable" => {
                if arguments.to_string() == "dead_letter" && !dead_letters {
                    let place =
                        "there is no place for dead letters: write `dead_letter(\"stream\")` too";
                    faults.at(&arguments, place);
                }
                options.on_undecodable = on_undecodable(faults, arguments);
            }
            "codec" => options.codec = one(faults, arguments, usage),
            _ => {
                if matches!(signature.output, ReturnType::Default) {
                    let returns =
                        "with `reply(..)` a handler returns what is published: write `-> T`";
                    faults.at(&tokens, returns);
                }
                options.reply = destination(faults, arguments, usage);
            }
        }
    }
    options
}

const UNKNOWN: &str = "unknown option: there are `batch(..)`, `retry(..)`, `dead_letter(..)`, `on_undecodable(..)`, \
                       `codec(..)`, `reply(..)` and `crate = path`";

/// How an option is written.
fn usage(name: &str) -> Option<&'static str> {
    Some(match name {
        "batch" => "batch(500, \"50ms\")",
        "retry" => "retry(max_attempts = 5, first = \"100ms\", cap = \"5s\")",
        "dead_letter" => "dead_letter(\"stream\")",
        "on_undecodable" => "on_undecodable(drop)",
        "codec" => "codec(Cbor)",
        "reply" => "reply(\"stream\")",
        _ => return None,
    })
}

fn batch(faults: &mut Faults, arguments: TokenStream, usage: &str) -> Option<(Expr, Time)> {
    let all = expressions(faults, &arguments, usage)?;
    let mut each = all.into_iter();
    let (Some(records), Some(wait), None) = (each.next(), each.next(), each.next()) else {
        faults.at(
            arguments,
            format_args!("a batch has a most of messages, and of time: write `{usage}`"),
        );
        return None;
    };
    let zero = is_zero(&records);
    if zero {
        faults.at(&records, "a batch has at least 1 message");
    }
    let wait = time(faults, wait)?;
    (!zero).then_some((records, wait))
}

fn retry(faults: &mut Faults, arguments: TokenStream, usage: &str) -> Option<Retry> {
    let settings = |input: syn::parse::ParseStream<'_>| -> syn::Result<Vec<(Ident, Expr)>> {
        let pair = |input: syn::parse::ParseStream<'_>| {
            let name = input.parse()?;
            input.parse::<Token![=]>()?;
            Ok((name, input.parse()?))
        };
        let pairs = input.parse_terminated(pair, Token![,])?;
        Ok(pairs.into_iter().collect())
    };
    let settings = match settings.parse2(arguments.clone()) {
        Ok(settings) => settings,
        Err(_) => {
            let mut all = expressions(faults, &arguments, usage)?.into_iter();
            return match (all.next(), all.next()) {
                (Some(policy), None) if !matches!(policy, Expr::Assign(_) | Expr::Lit(_)) => {
                    Some(Retry::Policy(policy))
                }
                _ => {
                    faults.at(
                        arguments,
                        format_args!(
                            "write `{usage}`, or an expression that gives a `RetryPolicy`"
                        ),
                    );
                    None
                }
            };
        }
    };
    let mut seen: Vec<Ident> = Vec::new();
    let mut values = Vec::new();
    for (name, value) in settings {
        if seen.contains(&name) {
            let twice = format_args!("`{name}` is given twice: remove this one").to_string();
            faults.at(&name, twice);
            continue;
        }
        seen.push(name.clone());
        let value = match name.to_string().as_str() {
            "max_attempts" if is_zero(&value) => {
                faults.at(&value, "a message is handed over at least once");
                continue;
            }
            "max_attempts" | "factor" | "jitter" => Some(RetryValue::Number(value)),
            "first" | "cap" => time(faults, value).map(RetryValue::Time),
            _ => {
                let unknown =
                    "unknown: there are `max_attempts`, `first`, `cap`, `factor` and `jitter`";
                faults.at(&name, unknown);
                continue;
            }
        };
        values.extend(value.map(|value| (name, value)));
    }
    Some(Retry::Settings(values))
}

fn on_undecodable(faults: &mut Faults, arguments: TokenStream) -> Option<Ident> {
    let variant = match arguments.to_string().as_str() {
        "drop" => "Drop",
        "retry" => "Retry",
        "dead_letter" => "DeadLetter",
        _ => {
            let choices = "what cannot be decoded is one of `drop`, `retry` and `dead_letter`";
            faults.at(arguments, choices);
            return None;
        }
    };
    let place = arguments.into_iter().next();
    let place = place.map_or_else(Span::call_site, |token| token.span());
    Some(Ident::new(variant, Span::mixed_site().located_at(place)))
}

fn destination(faults: &mut Faults, arguments: TokenStream, usage: &str) -> Option<Expr> {
    let name = one(faults, arguments, usage)?;
    if let Expr::Lit(ExprLit {
        lit: Lit::Str(text),
        ..
    }) = &name
        && text.value().is_empty()
    {
        faults.at(&name, format_args!("this is no name: write `{usage}`"));
        return None;
    }
    Some(name)
}

fn one(faults: &mut Faults, arguments: TokenStream, usage: &str) -> Option<Expr> {
    let mut all = expressions(faults, &arguments, usage)?.into_iter();
    let (Some(only), None) = (all.next(), all.next()) else {
        faults.at(
            arguments,
            format_args!("this takes one argument: write `{usage}`"),
        );
        return None;
    };
    Some(only)
}

fn expressions(faults: &mut Faults, arguments: &TokenStream, usage: &str) -> Option<Arguments> {
    let expressions = Arguments::parse_terminated.parse2(arguments.clone());
    if expressions.is_err() {
        faults.at(arguments, format_args!("write `{usage}`"));
    }
    expressions.ok()
}

fn is_zero(value: &Expr) -> bool {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => number.base10_digits() == "0",
        _ => false,
    }
}

fn time(faults: &mut Faults, value: Expr) -> Option<Time> {
    let Expr::Lit(ExprLit { lit, .. }) = &value else {
        return Some(Time::Expr(value));
    };
    let found = match lit {
        Lit::Str(text) => duration(&text.value()),
        _ => None,
    };
    if found.is_none() {
        faults.at(
            value.to_token_stream(),
            "a time is a whole number and its unit: write `\"50ms\"`, `\"2s\"` or `\"1m\"`",
        );
    }
    found.map(Time::Text)
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(milliseconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_its_unit() {
        for (text, milliseconds) in [
            ("0ms", 0),
            ("50ms", 50),
            ("2s", 2_000),
            ("1m", 60_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(
                duration(text),
                Some(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "50",
            "ms",
            "5 s",
            "-5s",
            "1.5s",
            "1d",
            "s5",
            "18446744073709551615s",
            "99999999999999999999ms",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
