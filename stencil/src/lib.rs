//! The 1D stencil mini-application.
