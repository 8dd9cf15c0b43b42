//! The door for the fuzz targets, and for nobody else: no part of this crate's interface.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::LeaseRow;
use crate::rows;

/// What an item of the table says.
#[must_use]
pub fn lease_row(lease_key: &str, item: &HashMap<String, AttributeValue>) -> LeaseRow {
    rows::row(lease_key, item)
}
