//! The calls to DynamoDB, one function each, with consistent reads throughout. It alone knows the SDK's
//! requests and answers.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Builder};
use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::describe_table::DescribeTableError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, ConsumedCapacity, KeySchemaElement, KeyType,
    KeysAndAttributes, ReturnConsumedCapacity, ReturnValue, ReturnValuesOnConditionCheckFailure,
    ScalarAttributeType, TableDescription,
};
use aws_smithy_async::time::SharedTimeSource;
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use aws_smithy_types::timeout::TimeoutConfig;
use aws_types::SdkConfig;
use lease_core::{LeaseError, LeaseKey};

use crate::error::{damaged_and_written, failed, failed_on_item, failed_to_build};
use crate::expressions::Write;
use crate::names;
use crate::row::{Item, Row, size};

/// How long one attempt of a call may take where the configuration sets no limit of its own. The service
/// answers within milliseconds; one attempt that hangs must not cost a lease.
const ATTEMPT: Duration = Duration::from_millis(1_500);
/// The same for a call that answers with many items.
const ATTEMPT_OF_MANY: Duration = Duration::from_millis(2_500);
/// How much of a scan costs one read unit.
const UNIT: usize = 4_096;

/// A table, as the store calls it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    client: Client,
    table: Arc<str>,
    /// The limits of a call that answers with many items.
    many: TimeoutConfig,
    /// For times that people read, and for nothing else.
    wall_clock: SharedTimeSource,
}

/// What became of a conditional write.
#[derive(Debug)]
pub(crate) enum Written {
    /// It took effect; the row after it.
    Done(Row),
    /// Its condition does not hold; the row as it is, if there is one.
    Refused(Option<Row>),
}

/// What became of a conditional deletion.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// There is no row any more; the row that this deleted, if there was one that could be understood.
    Done(Option<Row>),
    /// Its condition does not hold; the row as it is, if there is one.
    Refused(Option<Row>),
}

/// One answer of a scan.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) items: Vec<Item>,
    /// Where the next page begins, if this was not the last.
    pub(crate) next: Option<Item>,
    /// The read units that it cost.
    pub(crate) units: f64,
}

impl Calls {
    pub(crate) fn new(config: &SdkConfig, table: &str) -> Self {
        let mut builder = Builder::from(config);
        if config.behavior_version().is_none() {
            builder = builder.behavior_version(BehaviorVersion::latest());
        }
        let builder = builder.timeout_config(limited(config, ATTEMPT));
        Self {
            client: Client::from_conf(builder.build()),
            table: table.into(),
            many: limited(config, ATTEMPT_OF_MANY),
            wall_clock: config.time_source().unwrap_or_default(),
        }
    }

    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    /// The time for people to read.
    pub(crate) fn now(&self) -> String {
        let now = DateTime::from(self.wall_clock.now());
        DateTime::from_secs(now.secs())
            .fmt(Format::DateTime)
            .unwrap_or_default()
    }

    fn key(key: &LeaseKey) -> AttributeValue {
        AttributeValue::S(key.to_string())
    }

    fn decode(&self, key: &LeaseKey, item: &Item) -> Result<Row, LeaseError> {
        Row::decode(&self.table, key, item)
    }

    /// [UpdateItem]. The answer shows the row, whether the write took effect or not.
    ///
    /// [UpdateItem]: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_UpdateItem.html
    pub(crate) async fn write(&self, key: &LeaseKey, write: &Write) -> Result<Written, LeaseError> {
        let answer = self
            .client
            .update_item()
            .table_name(&*self.table)
            .key(names::LEASE_KEY, Self::key(key))
            .condition_expression(&write.condition)
            .update_expression(&write.update)
            .set_expression_attribute_names(Some(write.names()))
            .set_expression_attribute_values(Some(write.values()))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        match answer {
            Ok(answer) => {
                let item = answer.attributes.unwrap_or_default();
                let row = Row::read(key, &item)
                    .map_err(|what| damaged_and_written(&self.table, key, &what))?;
                Ok(Written::Done(row))
            }
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                    let row = self.row_at_refusal(key, refused.item()).await?;
                    Ok(Written::Refused(row))
                }
                _ => Err(failed_on_item("UpdateItem", &self.table, key, error)),
            },
        }
    }

    /// [DeleteItem]. The answer shows the row, whether it was deleted or not.
    ///
    /// [DeleteItem]: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_DeleteItem.html
    pub(crate) async fn delete(
        &self,
        key: &LeaseKey,
        write: &Write,
    ) -> Result<Deleted, LeaseError> {
        let answer = self
            .client
            .delete_item()
            .table_name(&*self.table)
            .key(names::LEASE_KEY, Self::key(key))
            .condition_expression(&write.condition)
            .set_expression_attribute_names(Some(write.names()))
            .set_expression_attribute_values(Some(write.values()))
            .return_values(ReturnValue::AllOld)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        match answer {
            Ok(answer) => Ok(Deleted::Done(
                // What was wrong with an item that is gone is of no use to anybody.
                answer
                    .attributes
                    .and_then(|item| Row::read(key, &item).ok()),
            )),
            Err(error) => match error.as_service_error() {
                Some(DeleteItemError::ConditionalCheckFailedException(refused)) => {
                    let row = self.row_at_refusal(key, refused.item()).await?;
                    Ok(Deleted::Refused(row))
                }
                _ => Err(failed_on_item("DeleteItem", &self.table, key, error)),
            },
        }
    }

    /// The row that made a condition fail. A server that does not send it along is asked for it.
    async fn row_at_refusal(
        &self,
        key: &LeaseKey,
        sent_along: Option<&Item>,
    ) -> Result<Option<Row>, LeaseError> {
        match sent_along {
            Some(item) if !item.is_empty() => Ok(Some(self.decode(key, item)?)),
            _ => self.get(key).await,
        }
    }

    /// [GetItem].
    ///
    /// [GetItem]: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_GetItem.html
    pub(crate) async fn get(&self, key: &LeaseKey) -> Result<Option<Row>, LeaseError> {
        let answer = self
            .client
            .get_item()
            .table_name(&*self.table)
            .key(names::LEASE_KEY, Self::key(key))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| failed("GetItem", &self.table, error))?;
        let item = answer.item.filter(|item| !item.is_empty());
        item.map(|item| self.decode(key, &item)).transpose()
    }

    /// [BatchGetItem]: up to a hundred items, and the keys that the service left for another call.
    ///
    /// [BatchGetItem]: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html
    pub(crate) async fn get_batch(
        &self,
        keys: Vec<String>,
    ) -> Result<(Vec<Item>, Vec<String>), LeaseError> {
        let keys = keys
            .into_iter()
            .map(|key| Item::from([(names::LEASE_KEY.to_owned(), AttributeValue::S(key))]))
            .collect();
        let wanted = KeysAndAttributes::builder()
            .set_keys(Some(keys))
            .consistent_read(true)
            .build()
            .map_err(|error| failed_to_build("BatchGetItem", &self.table, error))?;
        let answer = self
            .client
            .batch_get_item()
            .request_items(&*self.table, wanted)
            .customize()
            .config_override(Builder::new().timeout_config(self.many.clone()))
            .send()
            .await
            .map_err(|error| failed("BatchGetItem", &self.table, error))?;
        let items = answer.responses.into_iter().flatten();
        let left = answer.unprocessed_keys.into_iter().flatten();
        Ok((
            items.flat_map(|(_, items)| items).collect(),
            left.flat_map(|(_, left)| left.keys)
                .filter_map(|key| key_of(&key).map(str::to_owned))
                .collect(),
        ))
    }

    /// [Scan]: one page, of at most so many items if there is a limit.
    ///
    /// [Scan]: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_Scan.html
    pub(crate) async fn scan(
        &self,
        from: Option<Item>,
        limit: Option<i32>,
    ) -> Result<Page, LeaseError> {
        let answer = self
            .client
            .scan()
            .table_name(&*self.table)
            .consistent_read(true)
            .set_limit(limit)
            .set_exclusive_start_key(from)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .customize()
            .config_override(Builder::new().timeout_config(self.many.clone()))
            .send()
            .await
            .map_err(|error| failed("Scan", &self.table, error))?;
        let items = answer.items.unwrap_or_default();
        let counted = answer
            .consumed_capacity
            .and_then(|consumed: ConsumedCapacity| consumed.capacity_units);
        Ok(Page {
            // Some servers count less than the service does, or nothing.
            units: counted.unwrap_or(0.0).max(units(&items)),
            next: answer.last_evaluated_key.filter(|key| !key.is_empty()),
            items,
        })
    }

    /// [DescribeTable]; `None` where there is no such table.
    ///
    /// [DescribeTable]: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_DescribeTable.html
    pub(crate) async fn describe(&self) -> Result<Option<TableDescription>, LeaseError> {
        let answer = self
            .client
            .describe_table()
            .table_name(&*self.table)
            .send()
            .await;
        match answer {
            Ok(answer) => Ok(answer.table),
            Err(error) => match error.as_service_error() {
                Some(DescribeTableError::ResourceNotFoundException(_)) => Ok(None),
                _ => Err(failed("DescribeTable", &self.table, error)),
            },
        }
    }

    /// [CreateTable], with on-demand billing. That somebody else creates it, or that the service creates as
    /// many tables as it can already, is no failure: the table is looked for again.
    ///
    /// [CreateTable]: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_CreateTable.html
    pub(crate) async fn create(&self) -> Result<(), LeaseError> {
        let cannot_build = |error| failed_to_build("CreateTable", &self.table, error);
        let key = AttributeDefinition::builder()
            .attribute_name(names::LEASE_KEY)
            .attribute_type(ScalarAttributeType::S)
            .build()
            .map_err(cannot_build)?;
        let partition_key = KeySchemaElement::builder()
            .attribute_name(names::LEASE_KEY)
            .key_type(KeyType::Hash)
            .build()
            .map_err(cannot_build)?;
        let answer = self
            .client
            .create_table()
            .table_name(&*self.table)
            .attribute_definitions(key)
            .key_schema(partition_key)
            .billing_mode(BillingMode::PayPerRequest)
            .send()
            .await;
        match answer {
            Ok(_) => Ok(()),
            Err(error) => match error.as_service_error() {
                Some(
                    CreateTableError::ResourceInUseException(_)
                    | CreateTableError::LimitExceededException(_),
                ) => Ok(()),
                _ => Err(failed("CreateTable", &self.table, error)),
            },
        }
    }
}

/// The text of an item's key.
pub(crate) fn key_of(item: &Item) -> Option<&str> {
    item.get(names::LEASE_KEY)?.as_s().ok().map(String::as_str)
}

/// What a consistent scan of these items costs.
fn units(items: &[Item]) -> f64 {
    let bytes: usize = items.iter().map(size).sum();
    #[expect(clippy::cast_precision_loss, reason = "a page is at most a megabyte")]
    let units = bytes.div_ceil(UNIT).max(1) as f64;
    units
}

/// The time limits of the configuration, and one for each attempt where it sets none.
fn limited(config: &SdkConfig, attempt: Duration) -> TimeoutConfig {
    let ours = TimeoutConfig::builder()
        .operation_attempt_timeout(attempt)
        .build();
    match config.timeout_config() {
        Some(theirs) => {
            let mut limits = theirs.clone();
            limits.take_defaults_from(&ours);
            limits
        }
        None => ours,
    }
}
