use rstream::{AppError, Running};

async fn rewind(running: &Running) -> Result<(), AppError> {
    running.seek("inventory", "the beginning").await
}

fn main() {
    let _ = rewind;
}
