#![allow(unreachable_pub)]
fn main() {}
