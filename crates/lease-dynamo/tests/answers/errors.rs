//! Failures, and what a person is told about them.

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_types::SdkConfig;
use aws_types::region::Region;
use lease_core::{LeaseError, LeaseStore};
use lease_dynamo::DynamoLeaseStore;
use serde_json::json;

use crate::holder;
use crate::script::{Reply, Script, TTL, free, held, key};

#[tokio::test(start_paused = true)]
async fn throttling_is_told_as_such_after_the_sdks_own_tries() {
    let script = Script::default();
    for _ in 0..3 {
        let code = "ProvisionedThroughputExceededException";
        script.then(move |_| Reply::error(code, "slow down"));
    }
    let error = script.store().read(&key(0)).await.unwrap_err();
    assert!(matches!(error, LeaseError::Throttled { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("GetItem on DynamoDB table leases"), "{text}");
    assert!(text.contains("slow down"), "{text}");
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn missing_permission_is_told_with_the_action_to_allow() {
    let script = Script::default();
    let denied = "User: arn:aws:iam::123456789012:user/x is not authorized";
    script.then(move |_| Reply::error("AccessDeniedException", denied));
    let error = script.store().acquire(&key(0), "a", TTL).await.unwrap_err();
    assert!(
        matches!(error, LeaseError::Misconfigured { .. }),
        "{error:?}"
    );
    let text = error.to_string();
    for part in ["table leases", denied, "allow dynamodb:UpdateItem"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn an_item_that_cannot_be_understood_is_an_error_that_names_it() {
    let script = Script::default();
    let store = script.store();
    let mut later = held(&key(1), "a", 1, 1, "g");
    later["format"] = json!({"N": "2"});
    let refusal = later.clone();
    script
        .then(move |_| Reply::refused(Some(refusal)))
        .then(move |_| Reply::ok(json!({"Items": [free(&key(0), 1, 1), later]})));
    let keys = [key(0), key(1)];
    let errors = [
        store.acquire(&key(1), "a", TTL).await.unwrap_err(),
        store.read_all(&keys).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, LeaseError::Corrupt { .. }), "{error:?}");
        let text = error.to_string();
        for part in [
            "table leases",
            "inventory:shardId-000000000001",
            "format is 2",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn an_update_that_cannot_add_to_an_item_names_it() {
    let said = [
        "The provided expression refers to an attribute that does not exist in the item",
        "An operand in the update expression has an incorrect data type",
    ];
    for said in said {
        let script = Script::default();
        let store = script.store();
        for _ in 0..3 {
            script.then(move |_| Reply::error("ValidationException", said));
        }
        let errors = [
            store.acquire(&key(0), "a", TTL).await.unwrap_err(),
            store.renew(&key(0), &holder(1), TTL).await.unwrap_err(),
            store.ask(&key(0), "b").await.unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, LeaseError::Corrupt { .. }), "{error:?}");
            assert!(!error.is_retryable());
            let text = error.to_string();
            let item = "the item inventory:shardId-000000000000 of DynamoDB table leases";
            for part in [item, said, "correct it by hand"] {
                assert!(text.contains(part), "{part} in {text}");
            }
        }
        script.requests();
    }
}

#[tokio::test(start_paused = true)]
async fn a_signature_that_is_too_old_may_be_accepted_later_and_blames_the_clock() {
    let script = Script::default();
    let expired = "Signature expired: 20260131T110000Z is now earlier than 20260131T115500Z";
    script.then(move |_| Reply::error("InvalidSignatureException", expired));
    let error = script.store().read(&key(0)).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("the clock of this host is wrong"), "{text}");
    script.requests();
}

#[tokio::test]
async fn a_configuration_that_lacks_something_is_told() {
    let region = Region::new("eu-central-1");
    let credentials = Credentials::new("id", "secret", None, None, "test");
    let credentials = SharedCredentialsProvider::new(credentials);
    let bare = || SdkConfig::builder().http_client(Script::default());
    let without_region = bare().credentials_provider(credentials).build();
    let without_credentials = bare().region(region).build();
    for (config, said) in [
        (without_region, "the SdkConfig has no region"),
        (without_credentials, "the credentials of the SdkConfig"),
    ] {
        let store = DynamoLeaseStore::new(&config, "leases");
        let error = store.read(&key(0)).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error:?}");
        assert!(
            matches!(error, LeaseError::Misconfigured { .. }),
            "{error:?}"
        );
    }
}
