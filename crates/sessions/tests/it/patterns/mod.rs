//! The patterns, one file each: which prompts are sent, in which order, and with which result.

mod evaluator;
mod graph;
mod orchestrator;
mod parallel;
mod routing;
mod tasks;
