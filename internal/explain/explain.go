// Package explain answers an operator's questions about a cluster: what is wrong with the
// configuration, which addresses are in use, which node has them, and why.
//
// It decides nothing itself. It calls the decision packages of the allocator and the agents:
// census, ipam and config for addresses, announce and election for nodes, peering for BGP. Its
// input is a cluster as a value, a World, read from an API server or from files. Its output is an
// answer as a value that can be shown as tables and as JSON. The package reads and prints nothing
// itself.
//
// Read the files in this order:
//
//	world.go     a World is the known part of a cluster
//	view.go      the results of the decision packages for it
//	table.go     how answers are shown
//	validate.go, pools.go, services.go, election.go, status.go
//	             one answer each, after the command of its name
//	story.go     an answer in sentences
//	  service.go ip.go group.go node.go
//	             the sentences about one object
//	  allocator.go agents.go routes.go
//	             what the programs themselves say of it, and what routers know
package explain
