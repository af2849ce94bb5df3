package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"purelb.io/purelb/internal/announce/agentstate"
	"purelb.io/purelb/internal/explain"
)

const (
	// agentAnswers is how long an agent may take to send its state.
	agentAnswers = 5 * time.Second
	// mostAgents is how many agents one answer asks. An address has one holder and one winner.
	// More agents matter only for a Service with addresses in several networks.
	mostAgents = 8
)

// agentsOn returns the running agents, by node.
func agentsOn(pods []corev1.Pod) map[string]monitored {
	all := map[string]monitored{}
	for i := range pods {
		p := &pods[i]
		c := container(&p.Spec, "lbnodeagent")
		if c == nil || p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
			continue
		}
		for _, port := range c.Ports {
			if port.Name == "monitoring" {
				all[p.Spec.NodeName] = monitored{p.Name, port.ContainerPort}
			}
		}
	}
	return all
}

// agentReports asks the agents in wants in parallel, at most mostAgents of them.
func (r *reader) agentReports(ctx context.Context, pods []corev1.Pod, wants explain.Wants) map[string]explain.AgentReport {
	if len(wants.Agents) == 0 {
		return nil
	}
	agents, reports := agentsOn(pods), make([]explain.AgentReport, min(len(wants.Agents), mostAgents))
	c, err := newProber(r.config, r.namespace)
	var all sync.WaitGroup
	for i, node := range wants.Agents[:len(reports)] {
		at, runs := agents[node]
		switch {
		case err != nil:
			reports[i].Unheard = explain.NewUnheardAgent(node, explain.Failed, oneLine(err))
		case !runs:
			reports[i].Unheard = explain.NewUnheardAgent(node, explain.Absent, "no running agent was found there")
		default:
			all.Go(func() { reports[i] = r.agentReport(ctx, c, node, at, wants) })
		}
	}
	all.Wait()
	byNode := map[string]explain.AgentReport{}
	for i, one := range reports {
		byNode[wants.Agents[i]] = one
	}
	return byNode
}

// agentReport asks the agent of node.
func (r *reader) agentReport(ctx context.Context, c *prober, node string, at monitored, wants explain.Wants) explain.AgentReport {
	about := url.Values{}
	if len(wants.Addresses) > 0 {
		var texts []string
		for _, ip := range wants.Addresses {
			texts = append(texts, ip.String())
		}
		about.Set(agentstate.ByAddress, strings.Join(texts, ","))
	}
	ctx, cancel := context.WithTimeout(ctx, agentAnswers)
	defer cancel()
	text, err := c.get(ctx, at, agentstate.Path, about, 2*agentstate.MaxBytes)
	var s *agentstate.State
	if err == nil {
		s, err = readAgentState(text)
	}
	switch {
	case err == nil:
		return explain.AgentReport{State: s}
	case apierrors.IsForbidden(err):
		return explain.AgentReport{Unheard: explain.NewUnheardAgent(node, explain.Forbidden, r.noProxyRight())}
	}
	return explain.AgentReport{Unheard: explain.NewUnheardAgent(node, explain.Failed, at.pod+" did not answer: "+oneLine(err))}
}

// readAgentState reads an answer of an agent.
func readAgentState(text []byte) (*agentstate.State, error) {
	var s agentstate.State
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read the state of the agent: %w", err)
	}
	if s.Format != agentstate.Format {
		return nil, fmt.Errorf("the agent, version %s, answers in format %d, and this plugin reads format %d: use the plugin of that version", s.Version, s.Format, agentstate.Format)
	}
	return &s, nil
}
