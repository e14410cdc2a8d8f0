// What `influxd.py` builds: InfluxDB 2, with all its dependencies in the versions that it asks for itself. It is here as
// a module of ours that uses it as a tool because `go install` refuses modules that replace one of theirs, as InfluxDB
// does; the line below is InfluxDB's own.
module unskew/influxd

go 1.24

replace github.com/nats-io/nats-streaming-server v0.11.2 => github.com/influxdata/nats-streaming-server v0.11.3-0.20201112040610-c277f7560803

tool github.com/influxdata/influxdb/v2/cmd/influxd

require github.com/influxdata/influxdb/v2 v2.7.12
