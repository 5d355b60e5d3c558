//! What runs beside the sessions: the [`worker`] loop, which runs what should run and does not, and
//! [`notices`], which tell people what happened.

pub mod notices;
pub mod worker;
