//! Index spaces, fields, logical regions, partitions, privileges, instances and accessors.
