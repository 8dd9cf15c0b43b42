//! Each misuse of rstream gets one message, at the token at fault, that says what to write. One file per misuse.

#[test]
fn each_misuse_gets_one_message() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/subscriber/*.rs");
    cases.compile_fail("tests/ui/app/*.rs");
    cases.compile_fail("tests/ui/include/*.rs");
    cases.compile_fail("tests/ui/outgoing/*.rs");
    cases.compile_fail("tests/ui/by_hand/*.rs");
}
