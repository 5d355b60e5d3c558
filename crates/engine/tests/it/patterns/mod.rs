//! The patterns, each in its file: what is asked, in which order, and what comes of it.

mod evaluator;
mod graph;
mod orchestrator;
mod parallel;
mod routing;
mod tasks;
