// Package explain says of a cluster what its operator asks: what is wrong with the
// configuration, which addresses are in use, which node has them, and why.
//
// It decides nothing itself. What the allocator and the agents would do comes from
// the packages that these use too: census, ipam and config for addresses, announce
// and election for nodes, peering for BGP. A cluster comes in as a value, a World,
// whether it was read from an API server or from files. An answer goes out as a
// value too, which can be shown as tables and as JSON. The package knows nothing of
// how either is done.
//
// Read the files in this order:
//
//	world.go     a World is what is known of a cluster
//	view.go      what the decision packages make of it
//	table.go     how answers are shown
//	validate.go, pools.go, services.go, election.go, status.go
//	             one answer each, after the command of its name
//	story.go     an answer in sentences
//	  service.go ip.go group.go node.go
//	             the sentences about one object
package explain
