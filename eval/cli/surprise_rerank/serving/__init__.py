"""Commands that go on until they are stopped: a service, a page, tools of an agent."""
