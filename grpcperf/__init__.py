"""grpcperf."""
