//! The patterns: plain functions over [`crate::flow::Flow::step`], one file each.

pub mod chain;
