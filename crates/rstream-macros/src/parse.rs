//! From tokens to the syntax model. It judges nothing: what is grammatical here may still be misuse.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::parse::discouraged::Speculative as _;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Expr, Path, Token, Visibility};

use crate::model::{AppArgs, Function, Item, OPTIONS, Setting, SubscriberArgs};

impl Parse for SubscriberArgs {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let source = if input.is_empty() || is_setting(input) {
            None
        } else {
            let source: Expr = input.parse()?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
            Some(source)
        };
        Ok(Self {
            source,
            settings: settings(input)?,
        })
    }
}

impl Parse for AppArgs {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        Ok(Self {
            settings: settings(input)?,
        })
    }
}

fn settings(input: ParseStream<'_>) -> syn::Result<Vec<Setting>> {
    let mut settings = Vec::new();
    while !input.is_empty() {
        let fork = input.fork();
        let tokens = until_comma(input)?;
        settings.push(match krate(&fork) {
            Ok(path) => Setting::Crate { path, tokens },
            Err(_) => named(tokens),
        });
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(settings)
}

fn krate(input: ParseStream<'_>) -> syn::Result<Path> {
    input.parse::<Token![crate]>()?;
    input.parse::<Token![=]>()?;
    let path = Path::parse_mod_style(input)?;
    if input.is_empty() || input.peek(Token![,]) {
        Ok(path)
    } else {
        Err(input.error("expected `,`"))
    }
}

/// Whether a setting stands where the source should. A function of an option's name gives a source by a path to it.
fn is_setting(input: ParseStream<'_>) -> bool {
    if input.peek(Token![crate]) && input.peek2(Token![=]) {
        return true;
    }
    let mut tokens = input.fork().parse::<TokenStream>().into_iter().flatten();
    let (name, arguments) = (tokens.next(), tokens.next());
    let ends = match tokens.next() {
        None => true,
        Some(TokenTree::Punct(comma)) => comma.as_char() == ',',
        Some(_) => false,
    };
    let in_parentheses = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis);
    let is_option = |token: &TokenTree| matches!(token, TokenTree::Ident(name) if OPTIONS.iter().any(|option| name == option));
    ends && name.as_ref().is_some_and(is_option) && arguments.as_ref().is_some_and(in_parentheses)
}

fn named(tokens: TokenStream) -> Setting {
    let mut parts = tokens.clone().into_iter();
    match (parts.next(), parts.next(), parts.next()) {
        (Some(TokenTree::Ident(name)), Some(TokenTree::Group(group)), None)
            if group.delimiter() == Delimiter::Parenthesis =>
        {
            Setting::Named {
                name,
                arguments: Some(group.stream()),
                tokens,
            }
        }
        (Some(TokenTree::Ident(name)), ..) => Setting::Named {
            name,
            arguments: None,
            tokens,
        },
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

/// Takes every item; what is no function with a body is told by its keyword.
impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let fork = input.fork();
        if let Ok(function) = function(&fork) {
            input.advance_to(&fork);
            return Ok(Self::Function(Box::new(function)));
        }
        input.call(Attribute::parse_outer)?;
        input.parse::<Visibility>()?;
        let keyword = input.parse()?;
        input.parse::<TokenStream>()?;
        Ok(Self::Other { keyword })
    }
}

/// The body stays as it is: the compiler knows its syntax better than any other parser.
fn function(input: ParseStream<'_>) -> syn::Result<Function> {
    let function = Function {
        attributes: input.call(Attribute::parse_outer)?,
        visibility: input.parse()?,
        signature: input.parse()?,
        body: input.parse()?,
    };
    let has_body =
        matches!(&function.body, TokenTree::Group(body) if body.delimiter() == Delimiter::Brace);
    if has_body && input.is_empty() {
        Ok(function)
    } else {
        Err(input.error("expected a function with a body"))
    }
}
