//! The calls to Kinesis: one attempt each, and what a failure of it means.
//!
//! The SDK's own retries are off, so that each attempt is ours to count and to interrupt.

use std::collections::HashSet;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::config::StalledStreamProtectionConfig;
use aws_sdk_kinesis::config::retry::RetryConfig;
use aws_sdk_kinesis::config::timeout::TimeoutConfig;
use aws_sdk_kinesis::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_kinesis::types::{
    PutRecordsRequestEntry, PutRecordsResultEntry, Record, Shard, ShardFilter, ShardFilterType,
    ShardIteratorType,
};
use aws_smithy_runtime_api::client::interceptors::context::BeforeDeserializationInterceptorContextRef;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::DateTime;
use aws_smithy_types::config_bag::ConfigBag;
use aws_smithy_types::date_time::Format;

use crate::error::{ServiceError, ServiceErrorKind};
use crate::leasing::lineage::{self, Position, ShardInfo, Start};
use crate::publisher::Published;

/// How long one attempt of a call may take. GetRecords answers up to 10 MB, and a listing is repeated
/// soon anyway.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Pages of a listing past which something is wrong with the answers: 1,000 shards a page.
const PAGES: usize = 1_000;

const PUT_RECORDS: &str = "PutRecords";

/// Kinesis, as the broker uses it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    client: Client,
}

/// An iterator, and when the service gave it by its own clock.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) iterator: String,
    pub(crate) answered_at: Option<SystemTime>,
}

/// What one GetRecords call gave.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) records: Vec<Record>,
    /// `None` at the end of a closed shard.
    pub(crate) next: Option<String>,
    pub(crate) millis_behind: u64,
}

impl Service {
    pub(crate) fn new(config: aws_sdk_kinesis::config::Builder) -> Self {
        let config = config
            .retry_config(RetryConfig::disabled())
            // It counts on the wall clock, which may jump; an attempt has a limit of its own.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .timeout_config(
                TimeoutConfig::builder()
                    .operation_attempt_timeout(ATTEMPT)
                    .build(),
            )
            .build();
        Self {
            client: Client::from_conf(config),
        }
    }

    /// The time of day, by the time source of the SDK's configuration: this machine's, unless another was set.
    pub(crate) fn wall_clock(&self) -> SystemTime {
        let source = self.client.config().time_source();
        source.unwrap_or_default().now()
    }

    /// All shards of a stream: [ListShards], all pages of it.
    ///
    /// For a start at a timestamp a second listing, filtered by that moment, tells which shards had
    /// closed before it.
    ///
    /// [ListShards]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_ListShards.html
    pub(crate) async fn list_shards(
        &self,
        stream: &str,
        start: Start,
    ) -> Result<Vec<ShardInfo>, ServiceError> {
        let mut shards = self.list(stream, None).await?;
        let Start::AtTimestamp(moment) = start else {
            return Ok(shards);
        };
        if shards
            .iter()
            .any(|shard| shard.ending_sequence_number.is_some())
        {
            let filter = ShardFilter::builder()
                .r#type(ShardFilterType::FromTimestamp)
                .timestamp(DateTime::from(moment))
                .build()
                .map_err(|error| {
                    let said = error.to_string();
                    let kind = ServiceErrorKind::InvalidArgument;
                    ServiceError::new("ListShards", kind, said, Box::new(error))
                })?;
            let since = match self.list(stream, Some(filter)).await {
                Ok(since) => since,
                // The moment lies in the future, or the server knows no filters: nothing is known.
                Err(error) if error.kind() == ServiceErrorKind::InvalidArgument => {
                    return Ok(shards);
                }
                Err(error) => return Err(error),
            };
            let since: HashSet<_> = since.into_iter().map(|shard| shard.id).collect();
            for shard in &mut shards {
                let is_closed = shard.ending_sequence_number.is_some();
                shard.ended_before_start = is_closed && !since.contains(&shard.id);
            }
        }
        Ok(shards)
    }

    async fn list(
        &self,
        stream: &str,
        filter: Option<ShardFilter>,
    ) -> Result<Vec<ShardInfo>, ServiceError> {
        let mut shards = Vec::new();
        let mut token: Option<String> = None;
        for _ in 0..PAGES {
            let request = self.client.list_shards();
            // A token names stream and filter already, and is refused together with a name.
            let request = match token.take() {
                Some(token) => request.next_token(token),
                None => request.stream_name(stream).set_shard_filter(filter.clone()),
            };
            let page = request
                .send()
                .await
                .map_err(|error| failed("ListShards", error))?;
            shards.extend(page.shards.unwrap_or_default().into_iter().map(shard_info));
            token = page.next_token;
            if token.is_none() {
                return Ok(shards);
            }
        }
        Err(unavailable(
            "ListShards",
            format!("the listing of {stream} has no end after {PAGES} pages"),
        ))
    }

    /// An iterator: [GetShardIterator].
    ///
    /// [GetShardIterator]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetShardIterator.html
    pub(crate) async fn open(
        &self,
        stream: &str,
        shard: &str,
        at: &Position,
    ) -> Result<Opened, ServiceError> {
        let request = self
            .client
            .get_shard_iterator()
            .stream_name(stream)
            .shard_id(shard);
        let request = match at {
            Position::TrimHorizon => request.shard_iterator_type(ShardIteratorType::TrimHorizon),
            Position::Latest => request.shard_iterator_type(ShardIteratorType::Latest),
            Position::AtTimestamp(moment) => request
                .shard_iterator_type(ShardIteratorType::AtTimestamp)
                .timestamp(DateTime::from(*moment)),
            // Inside an aggregated record: the whole of it comes once more.
            Position::After(checkpoint) => request
                .shard_iterator_type(if checkpoint.sub_sequence().is_some() {
                    ShardIteratorType::AtSequenceNumber
                } else {
                    ShardIteratorType::AfterSequenceNumber
                })
                .set_starting_sequence_number(checkpoint.sequence().map(str::to_owned)),
        };
        let date = DateOfAnswer::default();
        let answer = request
            .customize()
            .interceptor(date.clone())
            .send()
            .await
            .map_err(|error| failed("GetShardIterator", error))?;
        match answer.shard_iterator {
            Some(iterator) => Ok(Opened {
                iterator,
                answered_at: date.get(),
            }),
            None => Err(unavailable(
                "GetShardIterator",
                "the answer has no iterator".to_owned(),
            )),
        }
    }

    /// The records at an iterator, so many at most: [GetRecords].
    ///
    /// [GetRecords]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html
    pub(crate) async fn fetch(
        &self,
        iterator: String,
        limit: Option<i32>,
    ) -> Result<Fetched, ServiceError> {
        let request = self.client.get_records().shard_iterator(iterator);
        let request = request.set_limit(limit);
        let answer = request
            .send()
            .await
            .map_err(|error| failed("GetRecords", error))?;
        Ok(Fetched {
            records: answer.records,
            next: answer.next_shard_iterator,
            millis_behind: answer
                .millis_behind_latest
                .and_then(|millis| u64::try_from(millis).ok())
                .unwrap_or(0),
        })
    }

    /// Puts records, and gives what became of each, in their order: [PutRecords].
    ///
    /// [PutRecords]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecords.html
    pub(crate) async fn put(
        &self,
        stream: &str,
        entries: Vec<PutRecordsRequestEntry>,
    ) -> Result<Vec<Result<Published, ServiceError>>, ServiceError> {
        let sent = entries.len();
        let request = self.client.put_records().stream_name(stream);
        let answer = request.set_records(Some(entries)).send().await;
        put_results(
            answer.map_err(|error| failed(PUT_RECORDS, error))?.records,
            sent,
        )
    }
}

/// What became of each record of a call with so many.
fn put_results(
    results: Vec<PutRecordsResultEntry>,
    sent: usize,
) -> Result<Vec<Result<Published, ServiceError>>, ServiceError> {
    if results.len() != sent {
        let said = format!("the answer is of {} records out of {sent}", results.len());
        return Err(unavailable(PUT_RECORDS, said));
    }
    Ok(results.into_iter().map(put_result).collect())
}

fn put_result(result: PutRecordsResultEntry) -> Result<Published, ServiceError> {
    match (result.shard_id, result.sequence_number) {
        (Some(shard), Some(sequence_number)) => Ok(Published {
            shard,
            sequence_number,
        }),
        _ => {
            let kind = kind_of(result.error_code.as_deref());
            let said = match (result.error_code, result.error_message) {
                (Some(code), Some(message)) => format!("{code}: {message}"),
                (Some(code), None) => code,
                _ => "the answer says neither where the record is nor what is wrong".to_owned(),
            };
            let source = said.clone().into();
            Err(ServiceError::new(PUT_RECORDS, kind, said, source))
        }
    }
}

fn shard_info(shard: Shard) -> ShardInfo {
    let hash_keys = shard.hash_key_range.and_then(|range| {
        lineage::HashKeyRange::read(&range.starting_hash_key, &range.ending_hash_key)
    });
    let (starting, ending) = match shard.sequence_number_range {
        Some(range) => (range.starting_sequence_number, range.ending_sequence_number),
        None => (String::from("0"), None),
    };
    ShardInfo {
        id: shard.shard_id.into(),
        parent: shard.parent_shard_id.map(Into::into),
        adjacent_parent: shard.adjacent_parent_shard_id.map(Into::into),
        hash_keys,
        starting_sequence_number: starting,
        ending_sequence_number: ending,
        ended_before_start: false,
    }
}

/// A failure that the SDK knows nothing of, and that may pass by itself.
pub(crate) fn unavailable(operation: &'static str, said: String) -> ServiceError {
    let source = said.clone().into();
    ServiceError::new(operation, ServiceErrorKind::Unavailable, said, source)
}

fn failed<E>(operation: &'static str, error: SdkError<E>) -> ServiceError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let code = error.code();
    let said = match (code, error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        _ => chain(&error),
    };
    ServiceError::new(operation, kind_of(code), said, Box::new(error))
}

fn kind_of(code: Option<&str>) -> ServiceErrorKind {
    match code {
        Some(
            "ProvisionedThroughputExceededException"
            | "LimitExceededException"
            | "ThrottlingException"
            | "KMSThrottlingException",
        ) => ServiceErrorKind::Throttled,
        Some("ExpiredIteratorException") => ServiceErrorKind::ExpiredIterator,
        Some("ResourceNotFoundException") => ServiceErrorKind::NotFound,
        Some(
            "AccessDeniedException"
            | "KMSAccessDeniedException"
            | "UnrecognizedClientException"
            | "InvalidSignatureException"
            | "ExpiredTokenException"
            | "InvalidClientTokenId",
        ) => ServiceErrorKind::AccessDenied,
        Some("InvalidArgumentException" | "ValidationException") => {
            ServiceErrorKind::InvalidArgument
        }
        _ => ServiceErrorKind::Unavailable,
    }
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

/// Takes the `Date` of an answer: Kinesis's own clock, to the second.
#[derive(Clone, Debug, Default)]
struct DateOfAnswer(Arc<Mutex<Option<SystemTime>>>);

impl DateOfAnswer {
    fn get(&self) -> Option<SystemTime> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[dyn_dispatch_hint]
impl Intercept for DateOfAnswer {
    fn name(&self) -> &'static str {
        "DateOfAnswer"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), aws_smithy_runtime_api::box_error::BoxError> {
        let date = context.response().headers().get("date");
        let date = date.and_then(|text| DateTime::from_str(text, Format::HttpDate).ok());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            date.and_then(|date| SystemTime::try_from(date).ok());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_kinesis::error::ErrorMetadata;
    use aws_sdk_kinesis::operation::get_records::GetRecordsError;
    use aws_sdk_kinesis::types::HashKeyRange;
    use aws_smithy_async::time::StaticTimeSource;
    use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
    use aws_smithy_types::body::SdkBody;

    use super::*;

    #[test]
    fn the_time_of_day_is_that_of_the_configuration() {
        let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_268_800);
        let config = aws_sdk_kinesis::Config::builder()
            .behavior_version_latest()
            .time_source(StaticTimeSource::new(noon));
        assert_eq!(Service::new(config).wall_clock(), noon);
    }

    #[test]
    fn a_shard_is_listed_with_its_hash_keys_where_they_make_sense() {
        let listed = |first: &str, last: &str| {
            let range = HashKeyRange::builder()
                .starting_hash_key(first)
                .ending_hash_key(last)
                .build();
            let shard = Shard::builder()
                .shard_id("0")
                .hash_key_range(range.unwrap());
            shard_info(shard.build().unwrap()).hash_keys
        };
        assert_eq!(listed("3", "7"), lineage::HashKeyRange::new(3, 7));
        assert_eq!(listed("7", "3"), None);
    }

    fn refusal() -> HttpResponse {
        HttpResponse::new(400.try_into().unwrap(), SdkBody::empty())
    }

    fn answered(code: &str) -> ServiceError {
        let metadata = ErrorMetadata::builder().code(code).message("why").build();
        let error = GetRecordsError::generic(metadata);
        failed("GetRecords", SdkError::service_error(error, refusal()))
    }

    #[test]
    fn each_code_of_the_service_is_known_by_what_it_means_for_the_caller() {
        use ServiceErrorKind::*;
        for (code, kind) in [
            ("ProvisionedThroughputExceededException", Throttled),
            ("LimitExceededException", Throttled),
            ("ThrottlingException", Throttled),
            ("KMSThrottlingException", Throttled),
            ("ExpiredIteratorException", ExpiredIterator),
            ("ResourceNotFoundException", NotFound),
            ("AccessDeniedException", AccessDenied),
            ("KMSAccessDeniedException", AccessDenied),
            ("UnrecognizedClientException", AccessDenied),
            ("InvalidSignatureException", AccessDenied),
            ("ExpiredTokenException", AccessDenied),
            ("InvalidArgumentException", InvalidArgument),
            ("ValidationException", InvalidArgument),
            ("InternalFailure", Unavailable),
            ("ServiceUnavailable", Unavailable),
            ("SomethingNew", Unavailable),
        ] {
            let error = answered(code);
            assert_eq!(error.kind(), kind, "{code}");
            let said = error.to_string();
            assert!(
                said.starts_with(&format!("GetRecords: {code}: why")),
                "{said}"
            );
        }
    }

    #[test]
    fn each_record_of_a_put_has_an_outcome_of_its_own() {
        let entry = PutRecordsResultEntry::builder;
        let stored = entry().shard_id("shard").sequence_number("7").build();
        let failed = |code: &str| entry().error_code(code).error_message("why").build();
        let results = vec![
            stored,
            failed("ProvisionedThroughputExceededException"),
            failed("InternalFailure"),
            failed("SomethingNew"),
            entry().shard_id("shard").build(),
        ];
        let mut outcomes = put_results(results, 5).unwrap().into_iter();
        let published = outcomes.next().unwrap().unwrap();
        assert_eq!(
            (&*published.shard, &*published.sequence_number),
            ("shard", "7")
        );
        let errors: Vec<_> = outcomes.map(Result::unwrap_err).collect();
        assert!(errors.iter().all(ServiceError::is_retryable));
        assert_eq!(errors[0].kind(), ServiceErrorKind::Throttled);
        assert_eq!(errors[1].to_string(), "PutRecords: InternalFailure: why");
        assert!(
            errors[3].to_string().contains("neither where"),
            "{}",
            errors[3]
        );
    }

    #[test]
    fn a_put_that_is_answered_for_some_of_its_records_is_no_answer() {
        let error = put_results(vec![PutRecordsResultEntry::builder().build()], 2).unwrap_err();
        assert!(error.is_retryable());
        assert!(error.to_string().contains("1 records out of 2"), "{error}");
    }

    #[test]
    fn a_call_without_an_answer_says_why_and_keeps_its_source() {
        let error = SdkError::<GetRecordsError>::timeout_error("no answer in time");
        let error = failed("GetRecords", error);
        assert_eq!(error.kind(), ServiceErrorKind::Unavailable);
        assert!(error.to_string().contains("no answer in time"), "{error}");
        assert!(std::error::Error::source(&error).is_some());
    }
}
