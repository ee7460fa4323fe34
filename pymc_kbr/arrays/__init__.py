"""Arrays alone: what every room above is built of."""
