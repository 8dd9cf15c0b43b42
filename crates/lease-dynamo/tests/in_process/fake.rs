//! A DynamoDB in this process, behind the SDK's HTTP-client hook: one table, and the calls that the store makes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_types::SdkConfig;
use aws_types::region::Region;
use lease_core::LeaseKey;
use lease_dynamo::DynamoLeaseStore;
use serde_json::{Value, json};

use crate::expression::{Item, Scope};

pub(crate) const TABLE: &str = "leases";

/// A failed call: the code and the message.
type Failure = (&'static str, Value);

/// What a failed condition answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusals {
    /// The item that is there.
    WithItem,
    /// No item, though it was asked for.
    Bare,
}

#[derive(Clone)]
pub(crate) struct Fake {
    items: Arc<Mutex<BTreeMap<String, Item>>>,
    refusals: Refusals,
}

impl Fake {
    pub(crate) fn new(refusals: Refusals) -> Self {
        Self {
            items: Arc::default(),
            refusals,
        }
    }

    /// Another instance of the store.
    pub(crate) fn store(&self) -> DynamoLeaseStore {
        DynamoLeaseStore::new(&self.config(), TABLE)
    }

    pub(crate) fn config(&self) -> SdkConfig {
        let credentials = Credentials::new("id", "secret", None, None, "test");
        SdkConfig::builder()
            .http_client(self.clone())
            .sleep_impl(TokioSleep::new())
            .region(Region::new("eu-central-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build()
    }

    /// Changes an item by hand, which must be there.
    pub(crate) fn edit(&self, key: &LeaseKey, edit: impl FnOnce(&mut Item)) {
        edit(
            self.items
                .lock()
                .unwrap()
                .get_mut(&key.to_string())
                .unwrap(),
        );
    }

    /// Deletes an item by hand.
    pub(crate) fn delete(&self, key: &LeaseKey) {
        self.items.lock().unwrap().remove(&key.to_string());
    }

    pub(crate) fn item(&self, key: &LeaseKey) -> Option<Item> {
        self.items.lock().unwrap().get(&key.to_string()).cloned()
    }

    fn answer(&self, operation: &str, body: &Value) -> Result<Value, Failure> {
        let mut items = self.items.lock().unwrap();
        match operation {
            "PutItem" => {
                let item = body["Item"].as_object().unwrap().clone();
                items.insert(key_of(&body["Item"]), item);
                Ok(json!({}))
            }
            "GetItem" => Ok(match items.get(&key_of(&body["Key"])) {
                Some(item) => json!({"Item": item}),
                None => json!({}),
            }),
            "BatchGetItem" => {
                let keys = body["RequestItems"][TABLE]["Keys"].as_array().unwrap();
                let found = keys.iter().filter_map(|key| items.get(&key_of(key)));
                Ok(json!({"Responses": {TABLE: found.collect::<Vec<_>>()}, "UnprocessedKeys": {}}))
            }
            "Scan" => Ok(json!({"Items": items.values().collect::<Vec<_>>()})),
            "UpdateItem" => self.update(&mut items, body),
            "DeleteItem" => {
                let key = key_of(&body["Key"]);
                self.check(items.get(&key), body)?;
                let old = items.remove(&key);
                Ok(match (old, body["ReturnValues"].as_str()) {
                    (Some(old), Some("ALL_OLD")) => json!({"Attributes": old}),
                    _ => json!({}),
                })
            }
            other => panic!("the store does not call {other}"),
        }
    }

    fn update(&self, items: &mut BTreeMap<String, Item>, body: &Value) -> Result<Value, Failure> {
        let key = key_of(&body["Key"]);
        self.check(items.get(&key), body)?;
        let mut item = match items.get(&key) {
            Some(item) => item.clone(),
            None => body["Key"].as_object().unwrap().clone(),
        };
        let scope = Scope::of(body);
        if let Err(message) = scope.update(body["UpdateExpression"].as_str().unwrap(), &mut item) {
            return Err(("ValidationException", json!({"message": message})));
        }
        items.insert(key, item.clone());
        Ok(json!({"Attributes": item}))
    }

    /// Whether the condition of a write holds.
    fn check(&self, item: Option<&Item>, body: &Value) -> Result<(), Failure> {
        let scope = Scope::of(body);
        let nothing = Item::new();
        let condition = body["ConditionExpression"].as_str().unwrap();
        if scope.holds(condition, item.unwrap_or(&nothing)) {
            return Ok(());
        }
        let mut said = json!({"message": "The conditional request failed"});
        if let (Some(item), Refusals::WithItem) = (item, self.refusals) {
            said["Item"] = json!(item);
        }
        Err(("ConditionalCheckFailedException", said))
    }
}

fn key_of(item: &Value) -> String {
    item["lease_key"]["S"].as_str().unwrap().to_owned()
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fake")
    }
}

impl HttpClient for Fake {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Fake {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap();
        let operation = target.rsplit('.').next().unwrap();
        let body = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
        let (status, answer) = match self.answer(operation, &body) {
            Ok(answer) => (200_u16, answer),
            Err((code, mut said)) => {
                said["__type"] = json!(format!("com.amazonaws.dynamodb.v20120810#{code}"));
                (400, said)
            }
        };
        let body = SdkBody::from(answer.to_string());
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status.try_into().unwrap(), body)))
    }
}
