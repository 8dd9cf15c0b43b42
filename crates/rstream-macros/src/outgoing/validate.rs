//! What is misuse of `#[derive(Outgoing)]`, and what to write instead: every error that it gives is here.

use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::{
    Attribute, Data, DeriveInput, Fields, Index, LitStr, Member, Meta, Path, Type, parse_quote,
    parse2,
};

use super::{Args, Misuse, Outgoing, Setting};

pub(crate) fn outgoing(item: TokenStream) -> Result<Outgoing, Box<Misuse>> {
    let mut krate = None;
    let mut faults = Vec::new();
    let item: DeriveInput = match parse2(item) {
        Ok(item) => item,
        Err(error) => {
            return Err(Box::new(Misuse {
                faults: vec![error],
                krate: parse_quote!(::rstream),
                item: None,
            }));
        }
    };
    let key = settings(&mut faults, &item, &mut krate);
    let field = fields(&mut faults, &item).and_then(|fields| {
        on_fields(&mut faults, fields);
        let name = key?;
        let found = field(fields, &name);
        if found.is_none() {
            faults.push(no_field(&item, fields, &name));
        }
        found
    });
    let krate = krate.unwrap_or_else(|| parse_quote!(::rstream));
    match field {
        Some((key, key_type)) if faults.is_empty() => Ok(Outgoing {
            krate,
            name: item.ident,
            generics: item.generics,
            key,
            key_type,
        }),
        _ => Err(Box::new(Misuse {
            faults,
            krate,
            item: Some(item),
        })),
    }
}

/// The name of the field of the partition key.
fn settings(
    faults: &mut Vec<syn::Error>,
    item: &DeriveInput,
    krate: &mut Option<Path>,
) -> Option<LitStr> {
    let (mut key, mut is_spoken_of) = (None, false);
    let mut attribute_at = None;
    for attribute in item.attrs.iter().filter(is_ours) {
        attribute_at = Some(attribute);
        let args = match &attribute.meta {
            Meta::List(list) => list.parse_args::<Args>(),
            Meta::Path(_) => Ok(Args(Vec::new())),
            Meta::NameValue(_) => Ok(Args(vec![Setting::NoField(
                attribute.meta.to_token_stream(),
            )])),
        };
        let settings = args.unwrap_or_else(|error| {
            faults.push(error);
            is_spoken_of = true;
            Args(Vec::new())
        });
        for setting in settings.0 {
            match setting {
                Setting::PartitionKey { tokens, .. } if key.is_some() => {
                    faults.push(at(
                        tokens,
                        "`partition_key` is given twice: remove this one",
                    ));
                }
                Setting::PartitionKey { field, .. } => key = Some(field),
                Setting::NoField(tokens) => {
                    faults.push(at(
                        tokens,
                        "the partition key is a field, by its name in quotes: write `partition_key = \"field\"`",
                    ));
                    is_spoken_of = true;
                }
                Setting::Crate { tokens, .. } if krate.is_some() => {
                    faults.push(at(tokens, "`crate` is given twice: remove this one"));
                }
                Setting::Crate { path, .. } => *krate = Some(path),
                Setting::Unknown(tokens) => {
                    faults.push(at(
                        tokens,
                        "unknown option: there are `partition_key = \"field\"` and `crate = path`",
                    ));
                    is_spoken_of = true;
                }
            }
        }
    }
    let is_struct = matches!(item.data, Data::Struct(_));
    if key.is_none() && !is_spoken_of && is_struct {
        let missing = "the partition key is missing: write `#[outgoing(partition_key = \"field\")]` on the struct, with \
                       the name of a field";
        faults.push(match attribute_at {
            Some(attribute) => at(attribute, missing),
            None => at(&item.ident, missing),
        });
    }
    key
}

fn fields<'i>(faults: &mut Vec<syn::Error>, item: &'i DeriveInput) -> Option<&'i Fields> {
    let by_hand = format!(
        "`Outgoing` is derived for structs: write `impl Outgoing for {}`",
        item.ident
    );
    match &item.data {
        Data::Struct(data) => return Some(&data.fields),
        Data::Enum(data) => faults.push(at(data.enum_token, by_hand)),
        Data::Union(data) => faults.push(at(data.union_token, by_hand)),
    }
    None
}

fn on_fields(faults: &mut Vec<syn::Error>, fields: &Fields) {
    for (index, field) in fields.iter().enumerate() {
        let name = match &field.ident {
            Some(name) => name.unraw().to_string(),
            None => index.to_string(),
        };
        for attribute in field.attrs.iter().filter(is_ours) {
            faults.push(at(
                attribute,
                format_args!("this stands on the struct: write `#[outgoing(partition_key = \"{name}\")]` there"),
            ));
        }
    }
}

fn field(fields: &Fields, name: &LitStr) -> Option<(Member, Type)> {
    let wanted = name.value();
    fields.iter().enumerate().find_map(|(at, field)| {
        let member = match &field.ident {
            Some(ident) if ident.unraw() == wanted => Member::Named(ident.clone()),
            None if at.to_string() == wanted => Member::Unnamed(Index::from(at)),
            _ => return None,
        };
        Some((member, field.ty.clone()))
    })
}

fn no_field(item: &DeriveInput, fields: &Fields, name: &LitStr) -> syn::Error {
    let there: Vec<_> = (fields.iter().enumerate())
        .map(|(at, field)| match &field.ident {
            Some(ident) => format!("\"{}\"", ident.unraw()),
            None => format!("\"{at}\""),
        })
        .collect();
    let (of, name_there) = (&item.ident, name.value());
    if there.is_empty() {
        let by_hand = "has no field to take a partition key from: write";
        return at(
            name,
            format_args!("`{of}` {by_hand} `impl Outgoing for {of}`"),
        );
    }
    let there = there.join(", ");
    at(
        name,
        format_args!("`{of}` has no field `{name_there}`: it has {there}"),
    )
}

fn is_ours(attribute: &&Attribute) -> bool {
    attribute.path().is_ident("outgoing")
}

fn at(place: impl quote::ToTokens, message: impl std::fmt::Display) -> syn::Error {
    syn::Error::new_spanned(place, message)
}
