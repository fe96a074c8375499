from remoting.agent.app import main

main()
