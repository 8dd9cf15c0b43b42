//! Where Kinesis is reached and as whom: what the user said of it, and the client that comes of it.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_kinesis::config::{Credentials, SharedCredentialsProvider};

use crate::KinesisError;
use crate::service::Service;

/// What the user said of the way to Kinesis. What is left out is found as the AWS SDK does by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connect {
    pub(crate) config: Option<SdkConfig>,
    pub(crate) endpoint: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) test_credentials: bool,
}

impl Connect {
    /// What can be told without the environment.
    pub(crate) fn check(&self) -> Result<(), KinesisError> {
        let configured = self.config.as_ref().and_then(SdkConfig::endpoint_url);
        match self.endpoint.as_deref().or(configured) {
            Some(endpoint) => check_endpoint(endpoint),
            None if self.test_credentials => Err(KinesisError::TestCredentials),
            None => Ok(()),
        }
    }

    /// Looks into the environment for what the user left out.
    pub(crate) async fn service(&self) -> Result<Service, KinesisError> {
        let config = match &self.config {
            Some(config) => config.clone(),
            None => {
                let mut loader = aws_config::defaults(BehaviorVersion::latest());
                if let Some(region) = &self.region {
                    loader = loader.region(Region::new(region.clone()));
                }
                if self.test_credentials {
                    loader = loader.credentials_provider(test_credentials());
                }
                loader.load().await
            }
        };
        let mut builder = aws_sdk_kinesis::config::Builder::from(&config);
        let configured = config.region().map(Region::as_ref);
        let region = self.region.as_deref().or(configured).unwrap_or_default();
        if region.trim().is_empty() {
            return Err(KinesisError::NoRegion);
        }
        builder = builder.region(Region::new(region.to_owned()));
        if let Some(endpoint) = &self.endpoint {
            builder = builder.endpoint_url(endpoint);
        } else if let Some(endpoint) = config.endpoint_url() {
            // It may come from the environment or a profile.
            check_endpoint(endpoint)?;
        }
        if self.test_credentials {
            builder = builder.credentials_provider(test_credentials());
        }
        Ok(Service::new(builder))
    }
}

fn check_endpoint(endpoint: &str) -> Result<(), KinesisError> {
    let wrong = |reason: String| KinesisError::Endpoint {
        endpoint: endpoint.to_owned(),
        reason,
    };
    let uri: http::Uri = endpoint
        .parse()
        .map_err(|error: http::uri::InvalidUri| wrong(error.to_string()))?;
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(other) => return Err(wrong(format!("{other} is neither http nor https"))),
        None => return Err(wrong("it has no scheme".to_owned())),
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(wrong("it has no host".to_owned()));
    }
    Ok(())
}

fn test_credentials() -> SharedCredentialsProvider {
    SharedCredentialsProvider::new(Credentials::new("test", "test", None, None, "test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_is_no_url_is_refused_by_its_own_text() {
        for bad in [
            "",
            "localhost:4567",
            "ftp://localhost",
            "http://",
            "ht tp://x",
            "/tmp/socket",
        ] {
            let error = check_endpoint(bad).unwrap_err();
            assert!(error.to_string().contains(&format!("{bad:?}")), "{error}");
        }
        for good in [
            "http://127.0.0.1:4567",
            "https://vpce-1.kinesis.eu-central-1.vpce.amazonaws.com",
            "http://[::1]:1/",
        ] {
            check_endpoint(good).unwrap();
        }
    }
}
