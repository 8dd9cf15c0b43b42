//! `#[derive(Outgoing)]`: from the tokens of the attribute to the syntax model. What is misuse is in `validate`, what
//! is written in `expand`.

mod expand;
mod validate;

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream};
use syn::{DeriveInput, Generics, Ident, LitStr, Member, Path, Token, Type};

pub(crate) use expand::{misuse, outgoing as expand};
pub(crate) use validate::outgoing as validate;

/// What stands in one `#[outgoing(..)]`.
struct Args(Vec<Setting>);

/// One comma-separated part of it.
enum Setting {
    /// `partition_key = "field"`.
    PartitionKey { field: LitStr, tokens: TokenStream },
    /// `partition_key` with something else, or nothing.
    NoField(TokenStream),
    /// `crate = path`.
    Crate { path: Path, tokens: TokenStream },
    /// Anything else.
    Unknown(TokenStream),
}

/// A struct without fault.
pub(crate) struct Outgoing {
    krate: Path,
    name: Ident,
    generics: Generics,
    /// The field of the partition key.
    key: Member,
    /// Its type.
    key_type: Type,
}

/// Faults, and the item that has them.
pub(crate) struct Misuse {
    faults: Vec<syn::Error>,
    krate: Path,
    /// Without it nothing can stand in for the implementation.
    item: Option<DeriveInput>,
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut settings = Vec::new();
        while !input.is_empty() {
            let fork = input.fork();
            let tokens = until_comma(input)?;
            settings.push(setting(&fork, tokens));
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(Self(settings))
    }
}

fn setting(input: ParseStream<'_>, tokens: TokenStream) -> Setting {
    let ends = || input.is_empty() || input.peek(Token![,]);
    if input.peek(Token![crate]) {
        let path = (input.parse::<Token![crate]>())
            .and_then(|_| input.parse::<Token![=]>())
            .and_then(|_| Path::parse_mod_style(input));
        return match path {
            Ok(path) if ends() => Setting::Crate { path, tokens },
            _ => Setting::Unknown(tokens),
        };
    }
    match input.parse::<Ident>() {
        Ok(name) if name == "partition_key" => {
            let field = input.parse::<Token![=]>().and_then(|_| input.parse());
            match field {
                Ok(field) if ends() => Setting::PartitionKey { field, tokens },
                _ => Setting::NoField(tokens),
            }
        }
        _ => Setting::Unknown(tokens),
    }
}

fn until_comma(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    let mut tokens = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        tokens.extend([input.parse::<TokenTree>()?]);
    }
    Ok(tokens)
}
