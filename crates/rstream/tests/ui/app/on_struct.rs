#[rstream::app]
struct Service;

fn main() {
    let _ = Service;
}
