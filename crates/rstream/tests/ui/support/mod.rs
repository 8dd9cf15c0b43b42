// What the cases here need to be about one thing each.
#![allow(dead_code)]

use rstream::IntoSubscription;
use rstream::broker::{
    BoxFuture, Broker, Connection, InProcess, Reports, Result, Source, Subscription,
};

#[derive(Debug)]
pub struct Topic(pub &'static str);

impl Source for Topic {
    type Broker = Memory;

    fn name(&self) -> &str {
        self.0
    }
}

pub struct Memory;

impl Broker for Memory {
    fn start(
        self: Box<Self>,
        _: Vec<Subscription>,
        _: Reports,
    ) -> BoxFuture<'static, Result<Box<dyn Connection>>> {
        unimplemented!()
    }

    fn start_in_process(
        self: Box<Self>,
        _: Vec<Subscription>,
        _: Reports,
    ) -> Result<Box<dyn InProcess>> {
        unimplemented!()
    }
}

#[derive(serde::Deserialize)]
pub struct Change {
    pub sku: u64,
}

#[derive(serde::Serialize, rstream::Outgoing)]
#[outgoing(partition_key = "sku")]
pub struct Receipt {
    pub sku: u64,
}

pub struct Nothing;

pub fn include(_: impl IntoSubscription) {}
