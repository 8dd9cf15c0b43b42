//! What the service refuses a request with. It alone knows each refusal's `__type` and status.

/// An error answer of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceError {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

/// Names a constructor for each kind of refusal; the page of a code is the Errors section of the operation
/// that answers it, or Common Errors.
macro_rules! refusals {
    ($($name:ident => $status:literal $code:literal;)*) => {
        impl ServiceError {
            $(pub(crate) fn $name(message: impl Into<String>) -> Self {
                Self { status: $status, code: $code, message: message.into() }
            })*
        }
    };
}

refusals! {
    access_denied => 400 "AccessDeniedException";
    dry_run => 400 "DryRunOperationException";
    expired_iterator => 400 "ExpiredIteratorException";
    expired_next_token => 400 "ExpiredNextTokenException";
    internal => 500 "InternalFailure";
    invalid_argument => 400 "InvalidArgumentException";
    invalid_signature => 400 "InvalidSignatureException";
    limit_exceeded => 400 "LimitExceededException";
    not_found => 400 "ResourceNotFoundException";
    in_use => 400 "ResourceInUseException";
    serialization => 400 "SerializationException";
    throughput_exceeded => 400 "ProvisionedThroughputExceededException";
    unavailable => 503 "ServiceUnavailable";
    unknown_operation => 400 "UnknownOperationException";
    validation => 400 "ValidationException";
}

impl ServiceError {
    /// A value that breaks a constraint of the API model, in the words that the service has for it.
    pub(crate) fn constraint(field: &str, value: impl std::fmt::Display, rule: &str) -> Self {
        Self::validation(format!(
            "1 validation error detected: Value '{value}' at '{field}' failed to satisfy constraint: \
             Member must {rule}"
        ))
    }

    /// A required field that the request lacks.
    pub(crate) fn missing(field: &str) -> Self {
        Self::validation(format!(
            "1 validation error detected: Value null at '{field}' failed to satisfy constraint: \
             Member must not be null"
        ))
    }
}
