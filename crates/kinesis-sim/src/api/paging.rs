//! Pages. It alone knows how much may be asked of a page, and what may be named as its start.

use std::ops::RangeInclusive;

use super::shapes::check_name;
use crate::error::ServiceError;
use crate::shard::ShardId;

/// The size of a page for which `asked` was asked.
pub(super) fn page_size(
    field: &str,
    asked: Option<i64>,
    allowed: &RangeInclusive<i64>,
    answered: i64,
) -> Result<usize, ServiceError> {
    let asked = asked.unwrap_or(answered);
    if asked < *allowed.start() {
        let rule = format!("have value greater than or equal to {}", allowed.start());
        Err(ServiceError::constraint(field, asked, &rule))
    } else if asked > *allowed.end() {
        let rule = format!("have value less than or equal to {}", allowed.end());
        Err(ServiceError::constraint(field, asked, &rule))
    } else {
        Ok(usize::try_from(asked.min(answered)).unwrap_or_default())
    }
}

/// The shard after which a page begins.
pub(super) fn start_after(field: &str, id: &str) -> Result<ShardId, ServiceError> {
    check_name(field, id)?;
    ShardId::parse(id)
        .ok_or_else(|| ServiceError::invalid_argument(format!("{field} {id} is no shard id.")))
}
