//! The SDK's HTTP-client hook. It alone knows what a call looks like from outside: its headers, how long it
//! takes, and what the SDK sees when no answer comes.

use std::future;
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::DateTime;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use aws_smithy_types::date_time::Format;
use tokio::time::{sleep, timeout};

use crate::api;
use crate::clock::Timestamp;
use crate::error::ServiceError;
use crate::fault::{Fate, Target};
use crate::operation::Operation;
use crate::world::{SharedWorld, World};

/// What the header X-Amz-Target begins with.
const TARGET_PREFIX: &str = "Kinesis_20131202.";
const CONTENT_TYPE: &str = "application/x-amz-json-1.1";

/// Connects the SDK to a simulated world.
#[derive(Clone, Debug)]
pub(crate) struct SimHttpClient {
    world: SharedWorld,
}

impl SimHttpClient {
    pub(crate) fn new(world: SharedWorld) -> Self {
        Self { world }
    }
}

impl HttpClient for SimHttpClient {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        _components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let read_timeout = settings.read_timeout();
        SharedHttpConnector::new(SimConnector {
            world: self.world.clone(),
            read_timeout,
        })
    }
}

#[derive(Debug)]
struct SimConnector {
    world: SharedWorld,
    read_timeout: Option<Duration>,
}

impl HttpConnector for SimConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let exchange = exchange(self.world.clone(), request);
        let read_timeout = self.read_timeout;
        HttpConnectorFuture::new(async move {
            match read_timeout {
                None => exchange.await,
                Some(limit) => match timeout(limit, exchange).await {
                    Ok(answered) => answered,
                    Err(elapsed) => Err(ConnectorError::timeout(elapsed.into())),
                },
            }
        })
    }
}

/// One call from its arrival to its answer. Dropping it before it is served leaves it without effect.
async fn exchange(
    world: SharedWorld,
    request: HttpRequest,
) -> Result<HttpResponse, ConnectorError> {
    // An answer that is ready at once would let a caller's loop starve the runtime.
    tokio::task::yield_now().await;
    let target = request
        .headers()
        .get("x-amz-target")
        .unwrap_or_default()
        .to_owned();
    let signed_at = request.headers().get("x-amz-date");
    let signed_at = signed_at.and_then(Timestamp::from_signature_date);
    // To its end, or the SDK would take the upload for stalled while it waits for an answer.
    let body = ByteStream::new(request.into_body()).collect().await;
    let body = body
        .map_err(|error| ConnectorError::io(error.into()))?
        .into_bytes();
    let Some(operation) = target
        .strip_prefix(TARGET_PREFIX)
        .and_then(Operation::named)
    else {
        let error = format!("The simulation has no operation {target}.");
        return Ok(answer(
            &mut world.lock(),
            Err(ServiceError::unknown_operation(error)),
        ));
    };
    let request = api::parse(operation, &body);
    let verdict = {
        let mut world = world.lock();
        let target = match &request {
            Ok(request) => request.target(&world),
            Err(_) => Target::new(operation, None, []),
        };
        world.arrive(&target)
    };
    pause(verdict.delay).await;
    let (outcome, answer_lost) = match verdict.fate {
        Fate::Hung => future::pending().await,
        Fate::TimedOut => return Err(ConnectorError::timeout("connection timed out".into())),
        Fate::Reset => return Err(reset()),
        Fate::Refused(error) => (Err(error), false),
        Fate::Served {
            partial,
            answer_lost,
        } => {
            let outcome =
                request.and_then(|request| world.lock().serve(request, signed_at, partial));
            (outcome, answer_lost)
        }
    };
    pause(verdict.answer_delay).await;
    if answer_lost {
        Err(reset())
    } else {
        Ok(answer(&mut world.lock(), outcome))
    }
}

fn reset() -> ConnectorError {
    ConnectorError::io("connection reset by peer".into())
}

async fn pause(duration: Duration) {
    if !duration.is_zero() {
        sleep(duration).await;
    }
}

/// The answer as the service writes it, with the date of the simulation's wall clock.
fn answer(world: &mut World, outcome: Result<Vec<u8>, ServiceError>) -> HttpResponse {
    let (status, body) = match outcome {
        Ok(body) => (200, body),
        Err(ServiceError {
            status,
            code,
            message,
        }) => {
            let body = serde_json::json!({ "__type": code, "message": message });
            (status, body.to_string().into_bytes())
        }
    };
    let status = StatusCode::try_from(status).expect("each refusal has a valid status");
    let mut response = HttpResponse::new(status, SdkBody::from(body));
    let now = world.now();
    let date =
        DateTime::from_secs(i64::try_from(now.seconds()).unwrap_or(i64::MAX)).fmt(Format::HttpDate);
    let headers = response.headers_mut();
    headers.insert("content-type", CONTENT_TYPE);
    headers.insert(
        "x-amzn-requestid",
        format!("00000000-0000-0000-0000-{:012x}", world.next_answer()),
    );
    if let Ok(date) = date {
        headers.insert("date", date);
    }
    response
}
