//! What a failed call to DynamoDB means to a caller, and what a person can do about it.

use std::error::Error;

use aws_sdk_dynamodb::error::{BuildError, ProvideErrorMetadata, SdkError};
use lease_core::{LeaseError, LeaseKey};

/// What to do about an item that cannot be understood.
const MEND: &str = "correct it by hand, or delete it while nobody reads the shard";

/// A failed call: which, on what, and what the service or the SDK said.
#[derive(Debug, thiserror::Error)]
#[error("{operation} on {target}: {said}{advice}")]
struct CallError {
    operation: &'static str,
    /// The table, and the item where it is to blame.
    target: String,
    said: String,
    advice: String,
    source: Box<dyn Error + Send + Sync>,
}

/// What went wrong, as far as it makes a difference to what a person does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Throttled,
    Unavailable,
    MissingTable,
    NotAllowed,
    NoCredentials,
    NoRegion,
    /// The wall clock is wrong, or the process stood still between signing and sending.
    LateSignature,
    WrongKey,
    /// The item, where the call was on one.
    Damaged,
    Refused,
}

impl Meaning {
    fn of(code: Option<&str>, said: &str) -> Self {
        match code {
            Some(
                "ProvisionedThroughputExceededException"
                | "ThrottlingException"
                | "Throttling"
                | "RequestLimitExceeded"
                | "LimitExceededException",
            ) => Self::Throttled,
            Some("ResourceNotFoundException" | "TableNotFoundException") => Self::MissingTable,
            Some("AccessDeniedException" | "AccessDenied") => Self::NotAllowed,
            Some("RequestExpired" | "RequestTimeTooSkewed" | "RequestInTheFuture") => {
                Self::LateSignature
            }
            Some("InvalidSignatureException") if is_about_the_time(said) => Self::LateSignature,
            Some(
                "UnrecognizedClientException"
                | "InvalidSignatureException"
                | "IncompleteSignatureException"
                | "MissingAuthenticationTokenException"
                | "InvalidClientTokenId",
            ) => Self::NoCredentials,
            Some("ValidationException") if is_about_the_key(said) => Self::WrongKey,
            Some("ValidationException") if is_about_the_item(said) => Self::Damaged,
            Some("ValidationException" | "SerializationException") => Self::Refused,
            // The SDK has no codes for what keeps it from sending anything.
            None if said.contains("Missing Region") => Self::NoRegion,
            None if said.contains("no identity resolver")
                || said.contains("no providers in chain provided credentials")
                || said.contains("no credentials found in chain") =>
            {
                Self::NoCredentials
            }
            // Among them expired credentials, which their provider replaces.
            _ => Self::Unavailable,
        }
    }

    fn advice(self, operation: &str) -> String {
        match self {
            Self::Throttled | Self::Unavailable | Self::Refused => String::new(),
            Self::MissingTable => "; is it the right name, region and account? \
                 `create_table_if_missing` creates it"
                .to_owned(),
            Self::NotAllowed => format!(
                "; allow dynamodb:{operation} on this table (the documentation of lease-dynamo has the \
                 whole policy)"
            ),
            Self::NoCredentials => {
                "; the credentials of the SdkConfig are missing or not accepted".to_owned()
            }
            Self::LateSignature => {
                "; the clock of this host is wrong, or the process stood still meanwhile: set the clock right. \
                 A next call may succeed all the same, since the SDK learns the time from the service's answers"
                    .to_owned()
            }
            Self::Damaged => format!("; the item is not what it should be: {MEND}"),
            Self::NoRegion => {
                "; the SdkConfig has no region: set AWS_REGION, or the region of a profile".to_owned()
            }
            Self::WrongKey => {
                "; leases need a table of their own whose key is the string partition key lease_key, \
                 without a sort key"
                    .to_owned()
            }
        }
    }

    fn wrap(self, source: CallError) -> LeaseError {
        match self {
            Self::Throttled => LeaseError::throttled(source),
            Self::Unavailable | Self::LateSignature => LeaseError::unavailable(source),
            Self::Damaged => LeaseError::corrupt(source),
            Self::MissingTable
            | Self::NotAllowed
            | Self::NoCredentials
            | Self::NoRegion
            | Self::WrongKey
            | Self::Refused => LeaseError::misconfigured(source),
        }
    }
}

fn is_about_the_key(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    [
        "key element does not match the schema",
        "number of conditions on the keys is invalid",
        "missing the key",
        "type mismatch for key",
    ]
    .iter()
    .any(|text| said.contains(text))
}

/// What the service says of a signature that is too old or too early.
fn is_about_the_time(said: &str) -> bool {
    ["Signature expired", "Signature not yet current"]
        .iter()
        .any(|text| said.contains(text))
}

/// What the service says where an update cannot add to what an item has.
fn is_about_the_item(said: &str) -> bool {
    [
        "attribute that does not exist in the item",
        "operand in the update expression has an incorrect data type",
    ]
    .iter()
    .any(|text| said.contains(text))
}

/// The meaning of a failed call on the table.
pub(crate) fn failed<E>(operation: &'static str, table: &str, error: SdkError<E>) -> LeaseError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    failed_on(operation, table, None, error)
}

/// The meaning of a failed call on an item.
pub(crate) fn failed_on_item<E>(
    operation: &'static str,
    table: &str,
    key: &LeaseKey,
    error: SdkError<E>,
) -> LeaseError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    failed_on(operation, table, Some(key), error)
}

fn failed_on<E>(
    operation: &'static str,
    table: &str,
    key: Option<&LeaseKey>,
    error: SdkError<E>,
) -> LeaseError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let code = error.code();
    let said = match (code, error.message()) {
        (Some(code), Some(message)) if !message.is_empty() => format!("{code}: {message}"),
        (Some(code), _) => code.to_owned(),
        (None, _) => chain(&error),
    };
    let meaning = match &error {
        // Nothing was sent, and nothing will be until somebody changes the configuration.
        SdkError::ConstructionFailure(_) => Meaning::Refused,
        SdkError::DispatchFailure(failure) if failure.is_user() => Meaning::Refused,
        _ => Meaning::of(code, &said),
    };
    let target = match (meaning, key) {
        (Meaning::Damaged, Some(key)) => format!("the item {key} of DynamoDB table {table}"),
        _ => format!("DynamoDB table {table}"),
    };
    meaning.wrap(CallError {
        operation,
        target,
        said,
        advice: meaning.advice(operation),
        source: Box::new(error),
    })
}

/// A request that cannot be built.
pub(crate) fn failed_to_build(
    operation: &'static str,
    table: &str,
    error: BuildError,
) -> LeaseError {
    Meaning::Refused.wrap(CallError {
        operation,
        target: format!("DynamoDB table {table}"),
        said: error.to_string(),
        advice: String::new(),
        source: Box::new(error),
    })
}

/// An item that cannot be understood, and was not written.
pub(crate) fn damaged(table: &str, key: &LeaseKey, what: &str) -> LeaseError {
    LeaseError::corrupt(format!(
        "the item {key} of DynamoDB table {table}: {what}. It is left as it is; {MEND}"
    ))
}

/// An item that cannot be understood, as its condition could not tell: the write took effect.
pub(crate) fn damaged_and_written(table: &str, key: &LeaseKey, what: &str) -> LeaseError {
    LeaseError::corrupt(format!(
        "the item {key} of DynamoDB table {table}: {what}. No condition tells that, so it was written; {MEND}"
    ))
}

/// A table whose key is not that of leases.
pub(crate) fn wrong_key(table: &str, found: &str) -> LeaseError {
    LeaseError::misconfigured(format!(
        "DynamoDB table {table} has the key {found}{}",
        Meaning::WrongKey.advice("")
    ))
}

/// The texts of an error and its sources, none of them twice.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    for source in std::iter::successors(error.source(), |&error| error.source()) {
        let text = source.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_service_says_is_told_apart() {
        let key = "The provided key element does not match the schema";
        let table = [
            (
                Some("ProvisionedThroughputExceededException"),
                "",
                Meaning::Throttled,
            ),
            (Some("ThrottlingException"), "", Meaning::Throttled),
            (Some("ResourceNotFoundException"), "", Meaning::MissingTable),
            (Some("AccessDeniedException"), "", Meaning::NotAllowed),
            (
                Some("UnrecognizedClientException"),
                "",
                Meaning::NoCredentials,
            ),
            (Some("ExpiredTokenException"), "", Meaning::Unavailable),
            (
                Some("InvalidSignatureException"),
                "The request signature we calculated does not match the signature you provided",
                Meaning::NoCredentials,
            ),
            (
                Some("InvalidSignatureException"),
                "Signature expired: 20260131T110000Z is now earlier than 20260131T115500Z",
                Meaning::LateSignature,
            ),
            (
                Some("InvalidSignatureException"),
                "Signature not yet current: 20260131T130000Z is still later than 20260131T120500Z",
                Meaning::LateSignature,
            ),
            (Some("RequestExpired"), "", Meaning::LateSignature),
            (
                Some("ValidationException"),
                "The provided expression refers to an attribute that does not exist in the item",
                Meaning::Damaged,
            ),
            (
                Some("ValidationException"),
                "An operand in the update expression has an incorrect data type",
                Meaning::Damaged,
            ),
            (Some("ValidationException"), key, Meaning::WrongKey),
            (
                Some("ValidationException"),
                "TableName is too short",
                Meaning::Refused,
            ),
            (Some("InternalServerError"), "", Meaning::Unavailable),
            (
                Some("TransactionConflictException"),
                "",
                Meaning::Unavailable,
            ),
            (None, "connection reset", Meaning::Unavailable),
            (
                None,
                "Invalid Configuration: Missing Region",
                Meaning::NoRegion,
            ),
            (
                None,
                "no providers in chain provided credentials",
                Meaning::NoCredentials,
            ),
            (
                None,
                "dispatch failure: other: no credentials found in chain. Attempted:\n  Environment: ..",
                Meaning::NoCredentials,
            ),
        ];
        for (code, said, meaning) in table {
            assert_eq!(Meaning::of(code, said), meaning, "{code:?} {said}");
        }
    }

    #[test]
    fn each_meaning_says_what_to_do() {
        let table = [
            (Meaning::MissingTable, "create_table_if_missing"),
            (Meaning::NotAllowed, "dynamodb:UpdateItem"),
            (Meaning::WrongKey, "lease_key"),
            (Meaning::NoCredentials, "credentials"),
            (Meaning::LateSignature, "clock of this host"),
            (Meaning::Damaged, "correct it by hand"),
        ];
        for (meaning, part) in table {
            assert!(meaning.advice("UpdateItem").contains(part), "{meaning:?}");
        }
        let error = wrong_key("leases", "id (HASH, N)").to_string();
        assert!(
            error.contains("table leases has the key id (HASH, N)"),
            "{error}"
        );
    }

    #[test]
    fn only_what_may_pass_by_itself_is_worth_a_retry() {
        let call = || CallError {
            operation: "UpdateItem",
            target: "DynamoDB table leases".to_owned(),
            said: "said".to_owned(),
            advice: String::new(),
            source: "cause".into(),
        };
        let table = [
            (Meaning::Throttled, true),
            (Meaning::Unavailable, true),
            (Meaning::LateSignature, true),
            (Meaning::Damaged, false),
            (Meaning::MissingTable, false),
            (Meaning::NotAllowed, false),
            (Meaning::NoCredentials, false),
            (Meaning::WrongKey, false),
            (Meaning::Refused, false),
        ];
        for (meaning, retryable) in table {
            let error = meaning.wrap(call());
            assert_eq!(error.is_retryable(), retryable, "{meaning:?}");
            assert!(
                error
                    .to_string()
                    .contains("UpdateItem on DynamoDB table leases: said")
            );
        }
    }
}
