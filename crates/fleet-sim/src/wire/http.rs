//! The instance's HTTP client: what it sends is handed to the simulated Kinesis in the world's runtime.

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use tokio::sync::oneshot;

use super::Line;

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
        let kinesis = self.kinesis.clone();
        let job = move |_| {
            let call: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
                // Nobody may be there any more to hear it.
                let _ = answer.send(kinesis.call(request).await);
            });
            call
        };
        self.line.send(self.line.clock.now(), Box::new(job));
        HttpConnectorFuture::new(async move {
            match answered.await {
                Ok(answer) => answer,
                Err(_) => std::future::pending().await,
            }
        })
    }
}
