"""`sonde mcp`: answers about dumps for agents, by the Model Context Protocol (docs/agents.md)."""
