//! Azure Resource Manager: virtual machine scale sets, as far as the provider calls them.
