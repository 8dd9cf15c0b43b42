//! A DynamoDB that answers what a test tells it to, behind the SDK's HTTP-client hook.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_async::time::TimeSource;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_types::SdkConfig;
use aws_types::region::Region;
use lease_core::LeaseKey;
use lease_dynamo::DynamoLeaseStore;
use serde_json::{Value, json};

/// What comes of a request.
pub(crate) enum Reply {
    /// An answer with this status and body.
    Json(u16, Value),
    /// The connection breaks before the answer is there.
    Lost,
    /// No answer ever comes.
    Never,
    /// It takes this long.
    Later(Duration, Box<Self>),
}

impl Reply {
    pub(crate) fn ok(body: Value) -> Self {
        Self::Json(200, body)
    }

    pub(crate) fn later(self, span: Duration) -> Self {
        Self::Later(span, Box::new(self))
    }

    pub(crate) fn error(code: &str, message: &str) -> Self {
        let kind = format!("com.amazonaws.dynamodb.v20120810#{code}");
        Self::Json(400, json!({"__type": kind, "message": message}))
    }

    /// A failed condition, with the item that is there or without it.
    pub(crate) fn refused(item: Option<Value>) -> Self {
        let mut body = json!({
            "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
            "message": "The conditional request failed",
        });
        if let Some(item) = item {
            body["Item"] = item;
        }
        Self::Json(400, body)
    }
}

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) operation: String,
    pub(crate) body: Value,
}

impl Request {
    /// A value of its expressions.
    pub(crate) fn value(&self, name: &str) -> &str {
        let value = &self.body["ExpressionAttributeValues"][name];
        let text = value["S"].as_str().or_else(|| value["N"].as_str());
        text.unwrap_or_else(|| panic!("{name} in {}", self.body))
    }

    pub(crate) fn condition(&self) -> &str {
        self.body["ConditionExpression"].as_str().unwrap()
    }
}

type Step = Box<dyn FnOnce(&Request) -> Reply + Send>;

/// The answers to come, and the requests so far.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    steps: VecDeque<Step>,
    seen: Vec<Request>,
}

impl Script {
    /// The next request is answered so.
    pub(crate) fn then(&self, step: impl FnOnce(&Request) -> Reply + Send + 'static) -> &Self {
        self.0.lock().unwrap().steps.push_back(Box::new(step));
        self
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        let state = self.0.lock().unwrap();
        assert!(state.steps.is_empty(), "{} answers left", state.steps.len());
        state.seen.clone()
    }

    /// An instance of the store on the table `leases`, its wall clock at 0.
    pub(crate) fn store(&self) -> DynamoLeaseStore {
        self.store_at(WallClock(SystemTime::UNIX_EPOCH))
    }

    pub(crate) fn store_at(&self, clock: impl TimeSource + 'static) -> DynamoLeaseStore {
        let credentials = Credentials::new("id", "secret", None, None, "test");
        let config = SdkConfig::builder()
            .http_client(self.clone())
            .sleep_impl(TokioSleep::new())
            .time_source(clock)
            .region(Region::new("eu-central-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build();
        DynamoLeaseStore::new(&config, "leases").seed(7)
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

impl HttpClient for Script {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Script {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap();
        let operation = target.rsplit('.').next().unwrap().to_owned();
        let body = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
        let request = Request { operation, body };
        let reply = {
            let mut state = self.0.lock().unwrap();
            state.seen.push(request.clone());
            let Some(step) = state.steps.pop_front() else {
                panic!("unexpected: {request:?}");
            };
            step(&request)
        };
        HttpConnectorFuture::new(async move {
            let mut reply = reply;
            while let Reply::Later(span, inner) = reply {
                tokio::time::sleep(span).await;
                reply = *inner;
            }
            match reply {
                Reply::Later(..) => unreachable!("it was unwrapped"),
                Reply::Json(status, body) => {
                    let status = status.try_into().unwrap();
                    Ok(HttpResponse::new(status, SdkBody::from(body.to_string())))
                }
                Reply::Lost => Err(ConnectorError::io("connection reset by peer".into())),
                Reply::Never => std::future::pending().await,
            }
        })
    }
}

/// A wall clock that stands still.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallClock(pub(crate) SystemTime);

impl TimeSource for WallClock {
    fn now(&self) -> SystemTime {
        self.0
    }
}

pub(crate) const TTL: Duration = Duration::from_secs(10);

pub(crate) fn key(shard: usize) -> LeaseKey {
    LeaseKey::new("inventory", format!("shardId-{shard:012}"))
}

/// The item of a lease that is held.
pub(crate) fn held(key: &LeaseKey, owner: &str, epoch: u64, counter: u64, grant: &str) -> Value {
    let mut item = free(key, epoch, counter);
    item["owner"] = json!({"S": owner});
    item["grant"] = json!({"S": grant});
    item
}

pub(crate) fn free(key: &LeaseKey, epoch: u64, counter: u64) -> Value {
    json!({
        "lease_key": {"S": key.to_string()},
        "format": {"N": "1"},
        "epoch": {"N": epoch.to_string()},
        "counter": {"N": counter.to_string()},
        "ttl_ms": {"N": "10000"},
        "cp_no": {"N": "0"},
    })
}
