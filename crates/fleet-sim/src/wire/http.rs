//! The instance's HTTP client: what it sends is handed to the simulated Kinesis in the world's runtime, and what it
//! reads is noted.

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use tokio::sync::oneshot;

use super::Line;
use crate::history::{Event, Sequence};

/// Reaches Kinesis over a line.
#[derive(Debug)]
pub(crate) struct RemoteHttp {
    pub(crate) kinesis: SharedHttpClient,
    pub(crate) line: Line,
}

impl HttpClient for RemoteHttp {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Connector {
            kinesis: self.kinesis.http_connector(settings, components),
            line: self.line.clone(),
        })
    }
}

#[derive(Debug)]
struct Connector {
    kinesis: SharedHttpConnector,
    line: Line,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (answer, answered) = oneshot::channel();
        let reads = (request.headers().get("x-amz-target"))
            .is_some_and(|target| target.ends_with(".GetRecords"));
        let kinesis = self.kinesis.clone();
        let job = move |_| {
            let call: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
                // Nobody may be there any more to hear it.
                let _ = answer.send(kinesis.call(request).await);
            });
            call
        };
        let (line, sent) = (self.line.clone(), self.line.clock.now());
        line.send(sent, Box::new(job));
        HttpConnectorFuture::new(async move {
            let Ok(answer) = answered.await else {
                return std::future::pending().await;
            };
            let records = match &answer {
                Ok(answer) if reads => records(answer),
                _ => Vec::new(),
            };
            if !records.is_empty() {
                let event = Event::Fetched {
                    instance: line.instance,
                    sent,
                    records,
                };
                line.recorder.note(line.clock.now(), event);
            }
            answer
        })
    }
}

/// The sequence numbers of the records that a read brought; none of an answer that is cut off or an error.
fn records(answer: &HttpResponse) -> Vec<Sequence> {
    let body = answer.body().bytes().unwrap_or_default();
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let records = body["Records"].as_array().map_or(&[][..], Vec::as_slice);
    let numbers = records
        .iter()
        .map(|record| record["SequenceNumber"].as_str());
    numbers
        .flatten()
        .map(|number| Sequence(number.to_owned()))
        .collect()
}
